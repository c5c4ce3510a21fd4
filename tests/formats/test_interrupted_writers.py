"""Results of processes that are killed, or whose disk is full, remain readable."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lithowave.output import SeismogramWriter, load_seismograms, load_snapshots

# The samples of 40 receivers lie one after the other, so that the limit cuts off those of the later ones.
LIMITS = {"s.h5": "3000000", "s.vtkhdf": "300000"}
OPEN = {
    "s.h5": """
        receivers = [SimpleNamespace(network="XX", station=f"S{k}", position=(0, 0, 0)) for k in range(40)]
        writer = SeismogramWriter(sys.argv[1], receivers, 0.1, 20000, "velocity")
        write = lambda number: writer.write(500 * number, {"motion": np.ones((40, 3, 500), "f4")})
    """,
    "s.vtkhdf": """
        writer = SnapshotWriter(sys.argv[1], (0, 0, 0), (1, 1, 1), (1, 100, 100), ["velocity"], step_count=20)
        write = lambda number: writer.write(float(number), {"velocity": np.ones((1, 100, 100, 3), "f4")})
    """,
}
BEGIN = """
    import os, resource, sys
    from types import SimpleNamespace
    import numpy as np
    from lithowave import OutputError
    from lithowave.output import SeismogramWriter, SnapshotWriter
"""
END = """
    write(0)
    write(1)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), 9)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    try:
        for number in range(2, 40):
            write(number)
    except OutputError as error:
        print(error)
        writer.close()
        raise SystemExit(3)
"""


@pytest.mark.parametrize("ending", ["full disk", "kill"])
@pytest.mark.parametrize("name", OPEN)
def test_earlier_parts_outlive_a_full_disk_and_a_kill(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / name
    parts = map(textwrap.dedent, (BEGIN, OPEN[name], END))
    script = f"import sys\nsys.path[:0] = {sys.path!r}\n" + "".join(parts)
    command = [sys.executable, "-c", script, path, ending, LIMITS[name]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == (-9 if ending == "kill" else 3), done.stderr
    if ending == "full disk":
        assert f"{name}: the disk or quota is full" in done.stdout and done.stderr == ""
        stated = "samples (to t = 99.9 s)" if name == "s.h5" else "snapshots"
        assert f"{stated} remain readable" in done.stdout
    if name == "s.vtkhdf":
        with load_snapshots(path) as snapshots:
            assert snapshots.times.tolist() == [0.0, 1.0] and (snapshots.read(1, "velocity") == 1).all()
        return
    assert load_seismograms(path).data.shape == (40, 3, 1000) and (load_seismograms(path).data == 1).all()
    with SeismogramWriter.resume(path) as writer:
        assert writer.samples_written == 1000
