"""Halo exchange between neighboring ranks, overlapped with computation: `start` and `finish` in each step.

The solver packs the values for a neighbor into a contiguous range of `outgoing`, and unpacks received values from
`incoming`; this module transports them. On a CUDA device, messages use a separate stream in parallel with the work that
the solver enqueues between `start` and `finish`. Packing and unpacking take microseconds and stay in the stream of that
work: a kernel that needs all multiprocessors would be delayed for longer by kernels of another stream.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from lithowave.errors import InputError, ResourceError
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import ModuleType

    from cupy.cuda.nccl import NcclCommunicator

    from lithowave.parallel.ranks import MpiRanks

SHARED_DEVICES = "LITHOWAVE_SHARED_DEVICES"  # 1: several ranks may use one device, for tests
TAG = 7
CHANNELS = 4  # NCCL channels
FLAG_BYTES = 128  # each flag has separate cache lines

Work = Callable[[], None]


class HaloBackend(Protocol):
    """What the exchange uses of a backend; see `lithowave.backends.interface.Backend`."""

    shared: bool
    @property
    def own_memory(self) -> bool: ...
    @property
    def device_count(self) -> int: ...
    def zeros(self, shape: int) -> HaloArray: ...
    def upload(self, array: np.ndarray, dtype: type[np.generic]) -> HaloArray: ...
    def mirror(self, array: HaloArray) -> Mirror: ...
    def on_side_stream(self, behind: bool = True) -> AbstractContextManager[None]: ...
    def join_side_stream(self) -> None: ...
    def synchronize(self) -> None: ...


class HaloDevice(HaloBackend, Protocol):
    """What the exchange uses in addition if the arrays are on a device; see `lithowave.backends.interface`."""

    spared_multiprocessors: int

    @property
    def identity(self) -> str: ...
    @property
    def stream(self) -> Pointer: ...
    def can_export(self) -> bool: ...
    def export(self, size: int) -> Exported: ...
    def peers(self) -> Peers: ...


class HaloArray(Protocol):
    """An array of a backend. data : its memory on a device."""

    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def data(self) -> Pointer: ...


class Pointer(Protocol):
    """Memory or a stream of a device. ptr : its address."""

    @property
    def ptr(self) -> int: ...


class Mirror(Protocol):
    """An array and its image `host` in main memory."""

    @property
    def host(self) -> np.ndarray: ...
    def pull(self) -> None: ...
    def wait(self) -> None: ...
    def push(self) -> None: ...


class Exported(Protocol):
    """Memory into which other processes can write."""

    @property
    def address(self) -> int: ...
    @property
    def handle(self) -> bytes: ...
    def free(self) -> None: ...


class Peers(Protocol):
    """Access to memory that other processes have exported."""

    def open(self, handle: bytes) -> int: ...
    def put(self, address: int, source: int, size: int) -> None: ...
    def raise_flag(self, address: int, number: int) -> None: ...
    def wait_flag(self, address: int, number: int) -> None: ...
    def close(self) -> None: ...


class Message:
    """Data that a rank exchanges with its neighbors in each call, with one contiguous range per neighbor, in rank
    order.

    outgoing, incoming : arrays on the device. first_sent, first_received : start of the range of each rank.
    """

    def __init__(self, halo: Halo, sends: Mapping[int, int], receives: Mapping[int, int]) -> None:
        self.halo, self.backend = halo, halo.backend
        self.sends, self.receives = dict(sorted(sends.items())), dict(sorted(receives.items()))
        self.first_sent, self.first_received = _begins(self.sends), _begins(self.receives)
        self.outgoing = self.backend.zeros(max(1, sum(self.sends.values())))
        self.incoming = self.backend.zeros(max(1, sum(self.receives.values())))
        self._prepare()

    @property
    def nbytes(self) -> int:
        """Bytes sent in each exchange."""
        return sum(self.sends.values()) * self.outgoing.itemsize

    def start(self, pack: Work) -> None:
        """Pack into `outgoing` and send it after all work enqueued so far, without waiting."""
        pack()
        if not self.halo.silent:
            with self.backend.on_side_stream():
                self._send()

    def finish(self, unpack: Work) -> None:
        """Unpack `incoming` after its arrival; work enqueued afterwards sees the result."""
        if not self.halo.silent:
            self._receive()
            self.backend.join_side_stream()
        unpack()

    def exchange(self, pack: Work, unpack: Work) -> None:
        """Start and finish the exchange."""
        self.start(pack)
        self.finish(unpack)

    def close(self) -> None:
        """Release the resources of the transport."""

    def _prepare(self) -> None:
        """Prepare the transport, once."""

    def _send(self) -> None:
        """Start to send and to receive."""

    def _receive(self) -> None:
        """Enqueue the reception in parallel with other work; on a host, wait for it."""


class StagedMpiMessage(Message):
    """Exchange by MPI between arrays in main memory; on a CUDA device through page-locked buffers."""

    halo: MpiHalo

    def _prepare(self) -> None:
        self._out, self._in = self.backend.mirror(self.outgoing), self.backend.mirror(self.incoming)
        world = self.halo.ranks.world
        self._requests = [world.Recv_init(part, source, TAG) for source, part in _parts(self._in.host, self.receives)]
        self._requests += [world.Send_init(part, target, TAG) for target, part in _parts(self._out.host, self.sends)]

    def close(self) -> None:
        """See `Message`."""
        for request in self._requests:
            request.Free()
        self._requests = []

    def _send(self) -> None:
        self._out.pull()

    def _receive(self) -> None:
        self._out.wait()
        start_all, wait_all = self.halo.ranks.mpi.Prequest.Startall, self.halo.ranks.mpi.Request.Waitall
        start_all(self._requests)
        wait_all(self._requests)
        with self.backend.on_side_stream(behind=False):
            self._in.push()


class MpiMessage(StagedMpiMessage):
    """Exchange by MPI between arrays that are already in main memory, without staging."""

    def _send(self) -> None:
        self.halo.ranks.mpi.Prequest.Startall(self._requests)

    def _receive(self) -> None:
        self.halo.ranks.mpi.Request.Waitall(self._requests)


class NcclMessage(Message):
    """Exchange by NCCL between devices."""

    halo: NcclHalo
    backend: HaloDevice

    def _send(self) -> None:
        nccl, communicator, stream = self.halo.nccl, self.halo.communicator, self.backend.stream.ptr
        kind = nccl.NCCL_FLOAT32 if self.outgoing.itemsize == 4 else nccl.NCCL_FLOAT64
        item = self.outgoing.itemsize
        nccl.groupStart()
        for rank, count in self.receives.items():
            communicator.recv(self.incoming.data.ptr + self.first_received[rank] * item, count, kind, rank, stream)
        for rank, count in self.sends.items():
            communicator.send(self.outgoing.data.ptr + self.first_sent[rank] * item, count, kind, rank, stream)
        nccl.groupEnd()


class PeerMessage(Message):
    """Exchange by the copy engines of the devices of one machine, directly into the memory of the neighbor.

    Each rank has two receive buffers, used alternately, with one flag per neighbor. A neighbor writes into the buffer
    of the message before last only after it has received the next message of this rank, which this rank sends after it
    has emptied that buffer: no further synchronization is needed. This requires messages in both directions; a message
    without values consists of a flag only.
    """

    halo: PeerHalo
    backend: HaloDevice

    def _prepare(self) -> None:
        ranks, item = self.halo.ranks, self.incoming.itemsize
        self.neighbors = sorted(self.sends.keys() | self.receives.keys())
        self._size = -(-self.incoming.nbytes // FLAG_BYTES) * FLAG_BYTES
        self._turn_bytes = self._size + FLAG_BYTES * len(self.neighbors)
        self._block, self._count = self.backend.export(2 * self._turn_bytes), 0
        self._flags = {rank: self._size + FLAG_BYTES * n for n, rank in enumerate(self.neighbors)}
        offers: list[tuple[bytes, int, int, int] | None] = [None] * ranks.size
        for rank in self.neighbors:
            first = self.first_received.get(rank, 0) * item
            offers[rank] = (self._block.handle, first, self._flags[rank], self._turn_bytes)
        answers = ranks.all_to_all(offers)
        missing = [rank for rank in self.neighbors if answers[rank] is None]
        assert not missing, f"ranks {missing} have no message from rank {ranks.rank}"
        self._remote = {rank: (self.halo.peers.open(answers[rank][0]), *answers[rank][1:]) for rank in self.neighbors}

    def close(self) -> None:
        """See `Message`; the halo has closed the opened memory."""
        self._block.free()

    def _send(self) -> None:
        self._count += 1
        peers, item = self.halo.peers, self.outgoing.itemsize
        for rank, (address, first, flag, turn_bytes) in self._remote.items():
            begin = address + self._count % 2 * turn_bytes
            if rank in self.sends:
                source = self.outgoing.data.ptr + self.first_sent[rank] * item
                peers.put(begin + first, source, self.sends[rank] * item)
            peers.raise_flag(begin + flag, self._count)

    def _receive(self) -> None:
        begin = self._block.address + self._count % 2 * self._turn_bytes
        with self.backend.on_side_stream(behind=False):
            for rank in self.neighbors:
                self.halo.peers.wait_flag(begin + self._flags[rank], self._count)
            self.halo.peers.put(self.incoming.data.ptr, begin, self.incoming.nbytes)


class Halo:
    """Communication among the ranks of a run.

    Parameters
    ----------
    ranks : the ranks of the run.
    backend : the device of this rank.
    transport : ``peer``, ``nccl``, ``host`` or ``auto``: the first of these that all ranks can use.
    silent : send no messages, to measure the cost of communication; results are then wrong.

    Raises
    ------
    InputError : the device does not support this transport.
    """

    def __init__(self, ranks: Ranks, backend: HaloBackend, transport: str = "auto", silent: bool = False) -> None:
        self.ranks, self.backend, self.silent = ranks, backend, silent
        self.transport = self._chosen(transport)
        self.communicator: NcclCommunicator | None = None
        self._messages: list[Message] = []
        if self.transport == "nccl":
            self._open_nccl()
        self.peers: Peers | None = cast(HaloDevice, backend).peers() if self.transport == "peer" else None

    @property
    def alone(self) -> bool:
        """True if there is only one rank."""
        return self.ranks.size == 1

    def message(self, sends: Mapping[int, int], receives: Mapping[int, int]) -> Message:
        """Return a message with these numbers of values to and from each neighbor; a collective call of all ranks."""
        kinds = {"peer": PeerMessage, "nccl": NcclMessage, "host": StagedMpiMessage, "mpi": MpiMessage, "none": Message}
        message = kinds[self.transport](self, sends, receives)
        if not self.alone:  # a standalone run has nothing to close
            self._messages.append(message)
        return message

    def __enter__(self) -> Halo:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Release messages and communicator; if the run failed, abort all ranks instead."""
        messages, self._messages = self._messages, []  # each refers to this halo
        if kind is not None:
            return
        self.backend.synchronize()
        self.ranks.barrier()  # no rank writes into the memory of another rank from here on
        if self.peers is not None:
            self.peers.close()
            self.ranks.barrier()
        for message in messages:
            message.close()
        if self.communicator is not None:
            self.communicator.destroy()  # otherwise NCCL hangs at exit
            self.communicator = None

    def facts(self) -> dict[str, object]:
        """Entries for run.json."""
        return self.ranks.facts() | ({} if self.alone else {"transport": self.transport})

    def _chosen(self, transport: str) -> str:
        if self.alone:
            return "none"
        if not self.backend.own_memory:
            if transport in ("peer", "nccl"):
                got, allowed = f"{transport} requires CUDA devices", "allowed on a CPU: auto, host"
                raise InputError("compute.transport", got, allowed)
            return "mpi"
        usable = [name for name in ("peer", "nccl", "host") if self.ranks.smallest(float(self._can(name))) > 0]
        if transport == "auto":
            return usable[0]
        if transport not in usable:
            why = {"peer": "requires one device per rank, all in one machine", "nccl": "requires one device per rank"}
            raise InputError(
                "compute.transport", f"{transport} {why[transport]}", f"allowed here: auto, {', '.join(usable)}"
            )
        return transport

    def _can(self, transport: str) -> bool:
        if transport == "host" or self.backend.shared:
            return transport == "host"
        if transport == "nccl":
            return nccl_version() is not None
        # Memory of a device that is not visible to this process cannot be written.
        one_machine = self.ranks.local_size == self.ranks.size <= self.backend.device_count
        return one_machine and cast(HaloDevice, self.backend).can_export()

    def _open_nccl(self) -> None:
        from cupy.cuda import nccl

        # NCCL copies with one kernel per channel, which needs free multiprocessors while the solver works.
        channels = int(os.environ.setdefault("NCCL_MAX_NCHANNELS", str(CHANNELS)))
        cast(HaloDevice, self.backend).spared_multiprocessors = min(channels, CHANNELS)
        self.nccl = nccl
        identity = self.ranks.broadcast(nccl.get_unique_id() if self.ranks.is_root else None)
        self.communicator = nccl.NcclCommunicator(self.ranks.size, identity, self.ranks.rank)


def single_rank_halo(backend: HaloBackend) -> Halo:
    """Return the halo of a standalone run, without messages."""
    return Halo(SINGLE_RANK, backend)


def device_index(ranks: Ranks, device_count: int) -> int:
    """Return the index of the device for this rank, from its rank on the machine."""
    return ranks.local_rank % max(1, device_count)


def require_own_device(ranks: Ranks, backend: HaloBackend) -> None:
    """Inform the backend whether other ranks use its device.

    Raises
    ------
    ResourceError : other ranks use it, which is allowed in tests only.
    """
    if not backend.own_memory:
        return
    users = ranks.all_gather((platform.node(), cast(HaloDevice, backend).identity))
    backend.shared = len(set(users)) < len(users)
    if backend.shared and os.environ.get(SHARED_DEVICES) != "1":
        devices = len({device for device in users if device[0] == platform.node()})
        raise ResourceError(
            f"{ranks.local_size} ranks share {devices} CUDA device{'s' * (devices != 1)}, but each rank needs "
            f"one device. Start at most {devices} ranks per machine, or set compute.backend: cpu."
        )


def ranks_sharing_cores(ranks: Ranks) -> int:
    """Return the number of ranks that may use the same cores as this rank: all ranks of the machine, or 1 if the
    launcher has bound each rank to separate cores."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    own = (platform.node(), tuple(sorted(cores)))
    return ranks.all_gather(own).count(own)


def nccl_version() -> str | None:
    """Return the version of the NCCL that CuPy has loaded; None without NCCL."""
    try:
        from cupy.cuda import nccl

        number = int(nccl.get_version()) if nccl.available else 0
    except Exception:  # CuPy without NCCL raises various exceptions
        return None
    major, rest = divmod(number, 10_000) if number >= 10_000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}" if number else None


def _begins(counts: Mapping[int, int]) -> dict[int, int]:
    return dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))


def _parts(array: np.ndarray, counts: Mapping[int, int]) -> list[tuple[int, np.ndarray]]:
    """Return the contiguous range of each rank."""
    return [(rank, array[first : first + counts[rank]]) for rank, first in _begins(counts).items()]


if TYPE_CHECKING:

    class MpiHalo(Halo):
        """A `Halo` with the transport ``host`` or ``mpi``."""

        ranks: MpiRanks

    class NcclHalo(Halo):
        """A `Halo` with the transport ``nccl``."""

        nccl: ModuleType
        communicator: NcclCommunicator

    class PeerHalo(Halo):
        """A `Halo` with the transport ``peer``."""

        peers: Peers
