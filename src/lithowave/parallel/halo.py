"""Messages between neighbouring ranks, hidden behind work: `start` and `finish` of each step.

The solver packs what a neighbour needs into one stretch of `outgoing`, and unpacks what came from `incoming`; the rest
is done here. On a CUDA device messages travel on a stream of their own, beside the work that the solver asks for
between `start` and `finish`. Packing and unpacking, which take microseconds, stay in the order of that work: kernels
beside one that needs all multiprocessors at once would hold it up for longer.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from lithowave.errors import InputError, ResourceError
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

SHARED_DEVICES = "LITHOWAVE_SHARED_DEVICES"  # 1: several ranks may use one device, for tests
TAG = 7
CHANNELS = 4  # of NCCL
FLAG_BYTES = 128  # flags lie in lines of memory of their own

Work = Callable[[], None]


class Message:
    """What a rank exchanges with its neighbours each time, one stretch of numbers for each, ranks rising.

    outgoing, incoming : arrays on the device. first_sent, first_received : where in them each rank's stretch begins.
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
        """Bytes that go out each time."""
        return sum(self.sends.values()) * self.outgoing.itemsize

    def start(self, pack: Work) -> None:
        """Pack into `outgoing` and send it, once everything asked for so far is done. Nothing waits."""
        pack()
        if not self.halo.silent:
            with self.backend.on_side_stream():
                self._send()
        if not self.halo.overlap:
            self._arrive()

    def finish(self, unpack: Work) -> None:
        """Unpack `incoming` once it has come; all work asked for afterwards finds it done."""
        if self.halo.overlap:
            self._arrive()
        unpack()

    def exchange(self, pack: Work, unpack: Work) -> None:
        """Both at once."""
        self.start(pack)
        self.finish(unpack)

    def close(self) -> None:
        """Let go of what the transport holds."""

    def _arrive(self) -> None:
        """What is asked for from now on finds all of it in `incoming`."""
        if not self.halo.silent:
            self._receive()
            self.backend.join_side_stream()

    def _prepare(self) -> None:
        """Whatever the transport needs once."""

    def _send(self) -> None:
        """Begin to send and to receive."""

    def _receive(self) -> None:
        """Queue, beside other work, whatever brings it there; on a host wait for it."""


class StagedMpiMessage(Message):
    """By MPI between arrays in main memory; on a CUDA device through page-locked buffers."""

    def _prepare(self) -> None:
        self._out, self._in = self.backend.mirror(self.outgoing), self.backend.mirror(self.incoming)
        world = self.halo.ranks.world
        self._requests = [
            world.Recv_init(part, source, TAG) for source, part in _parts(self._in.host, self.receives)
        ]
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
    """By MPI between arrays that are in main memory anyway: sent at once."""

    def _send(self) -> None:
        self.halo.ranks.mpi.Prequest.Startall(self._requests)

    def _receive(self) -> None:
        self.halo.ranks.mpi.Request.Waitall(self._requests)


class NcclMessage(Message):
    """By NCCL from device to device."""

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
    """By the copy engines of the devices of one machine, straight into the memory of the neighbour.

    Each rank has two blocks for what comes, used in turns, with a flag for each neighbour. A neighbour can only write
    into the block of two messages before when it has this rank's next message, which this rank sent after it had
    emptied that block: so nobody needs to be asked. That takes a message both ways; one of no numbers is a flag alone.
    """

    def _prepare(self) -> None:
        ranks, item = self.halo.ranks, self.incoming.itemsize
        self.neighbors = sorted(self.sends.keys() | self.receives.keys())
        self._size = -(-self.incoming.nbytes // FLAG_BYTES) * FLAG_BYTES
        self._turn_bytes = self._size + FLAG_BYTES * len(self.neighbors)
        self._block, self._count = self.backend.export(2 * self._turn_bytes), 0
        self._flags = {rank: self._size + FLAG_BYTES * n for n, rank in enumerate(self.neighbors)}
        told: list[Any] = [None] * ranks.size
        for rank in self.neighbors:
            first = self.first_received.get(rank, 0) * item
            told[rank] = (self._block.handle, first, self._flags[rank], self._turn_bytes)
        answers = ranks.all_to_all(told)
        missing = [rank for rank in self.neighbors if answers[rank] is None]
        assert not missing, f"ranks {missing} do not know of a message from rank {ranks.rank}"
        self._remote = {rank: (self.halo.peers.open(answers[rank][0]), *answers[rank][1:]) for rank in self.neighbors}

    def close(self) -> None:
        """See `Message`; the halo has closed what was opened."""
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
    """How the ranks of a run exchange messages.

    Parameters
    ----------
    ranks : of the run. backend : the device of this one. transport : ``peer``, ``nccl``, ``host`` or ``auto``: the
    first of these that all ranks can use. overlap : whether messages travel while the solver works; off to measure what
    that saves. silent : send nothing at all; results are then wrong: to measure what messages cost.

    Raises
    ------
    InputError : a transport that the device does not have.
    """

    def __init__(
        self, ranks: Ranks, backend: Any, transport: str = "auto", overlap: bool = True, silent: bool = False
    ) -> None:
        self.ranks, self.backend, self.overlap, self.silent = ranks, backend, overlap, silent
        self.transport = self._chosen(transport)
        self.communicator: Any = None
        self._messages: list[Message] = []
        if self.transport == "nccl":
            self._open_nccl()
        self.peers = backend.peers() if self.transport == "peer" else None

    @property
    def alone(self) -> bool:
        """Whether there is only one rank."""
        return self.ranks.size == 1

    def message(self, sends: Mapping[int, int], receives: Mapping[int, int]) -> Message:
        """A message of so many numbers to and from each neighbouring rank. All ranks must make theirs alike."""
        kinds = {"peer": PeerMessage, "nccl": NcclMessage, "host": StagedMpiMessage, "mpi": MpiMessage, "none": Message}
        message = kinds[self.transport](self, sends, receives)
        if not self.alone:  # without other ranks there is nothing to close, and no end of a run at which to do it
            self._messages.append(message)
        return message

    def __enter__(self) -> Halo:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let go of messages and communicator; of a run that failed all ranks end at once instead."""
        messages, self._messages = self._messages, []  # each of which has this halo
        if kind is not None:
            return
        self.backend.synchronize()
        self.ranks.barrier()  # nobody writes into the memory of another one any more
        if self.peers is not None:
            self.peers.close()
            self.ranks.barrier()
        for message in messages:
            message.close()
        if self.communicator is not None:
            self.communicator.destroy()  # NCCL hangs at exit otherwise
            self.communicator = None

    def facts(self) -> dict[str, Any]:
        """What run.json tells."""
        return self.ranks.facts() | ({} if self.alone else {"transport": self.transport})

    def _chosen(self, transport: str) -> str:
        if self.alone:
            return "none"
        if not self.backend.own_memory:
            if transport in ("peer", "nccl"):
                raise InputError("compute.transport", f"{transport} is for CUDA devices", "Allowed on a CPU: auto")
            return "mpi"
        usable = [name for name in ("peer", "nccl", "host") if self.ranks.smallest(float(self._can(name))) > 0]
        if transport == "auto":
            return usable[0]
        if transport not in usable:
            why = {"peer": "needs a device for each rank, all in one machine", "nccl": "needs a device for each rank"}
            raise InputError(
                "compute.transport", f"{transport} {why[transport]}", f"Allowed here: auto, {', '.join(usable)}"
            )
        return transport

    def _can(self, transport: str) -> bool:
        if transport == "host" or self.backend.shared:
            return transport == "host"
        if transport == "nccl":
            return nccl_version() is not None
        # A device that this process does not see cannot be written into.
        one_machine = self.ranks.local_size == self.ranks.size <= self.backend.device_count
        return one_machine and self.backend.can_export()

    def _open_nccl(self) -> None:
        from cupy.cuda import nccl

        # NCCL copies by kernels, one a channel, which must find multiprocessors while the solver works.
        channels = int(os.environ.setdefault("NCCL_MAX_NCHANNELS", str(CHANNELS)))
        if self.overlap:
            self.backend.spared_multiprocessors = min(channels, CHANNELS)
        self.nccl = nccl
        identity = self.ranks.broadcast(nccl.get_unique_id() if self.ranks.is_root else None)
        self.communicator = nccl.NcclCommunicator(self.ranks.size, identity, self.ranks.rank)


def single_rank_halo(backend: Any) -> Halo:
    """The halo of a run on one rank: nobody to send to."""
    return Halo(SINGLE_RANK, backend)


def device_index(ranks: Ranks, device_count: int) -> int:
    """Number of the device for this rank, by its rank on the machine."""
    return ranks.local_rank % max(1, device_count)


def require_own_device(ranks: Ranks, backend: Any) -> None:
    """Let the backend know whether other ranks use its device, too.

    Raises
    ------
    ResourceError : they do, which is allowed in tests only.
    """
    if not backend.own_memory:
        return
    users = ranks.all_gather((platform.node(), backend.identity))
    backend.shared = len(set(users)) < len(users)
    if backend.shared and os.environ.get(SHARED_DEVICES) != "1":
        devices = len({device for device in users if device[0] == platform.node()})
        raise ResourceError(
            f"{ranks.local_size} ranks on a machine with {devices} CUDA device{'s' * (devices != 1)}: each rank needs "
            f"one of its own. Start at most {devices} there, or set compute.backend: cpu."
        )


def ranks_sharing_cores(ranks: Ranks) -> int:
    """How many ranks may run on the same cores of this machine as this one: all that are on it, or, where the launcher
    has given each cores of its own, just this one."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    own = (platform.node(), tuple(sorted(cores)))
    return ranks.all_gather(own).count(own)


def nccl_version() -> str | None:
    """Of the NCCL that CuPy has loaded."""
    try:
        from cupy.cuda import nccl

        number = int(nccl.get_version()) if nccl.available else 0
    except Exception:  # CuPy without NCCL fails in ways of its own
        return None
    major, rest = divmod(number, 10_000) if number >= 10_000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}" if number else None


def _begins(counts: Mapping[int, int]) -> dict[int, int]:
    return dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))


def _parts(array: np.ndarray, counts: Mapping[int, int]) -> list[tuple[int, np.ndarray]]:
    """The stretch of each rank."""
    return [(rank, array[first : first + counts[rank]]) for rank, first in _begins(counts).items()]
