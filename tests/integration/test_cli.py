"""The command line: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import lithowave as lw
from lithowave import doctor
from lithowave.cli import json_text, printing, progress
from small_machine import hide_packages, limit_disk, limit_memory
from small_run import lithowave, report_of, settings, spawn, write_small


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a complete run, and what the command said."""
    folder = tmp_path_factory.mktemp("run")
    return folder / "out", lithowave("run", write_small(folder), "--output", folder / "out")


def python(code: str) -> str:
    """Output of Python code in a process of its own, with this process's path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_is_quick_and_loads_nothing_heavy():
    heavy = ("numpy", "numba", "pydantic", "yaml", "h5py", "matplotlib", "pyproj", "scipy", "obspy")
    code = f"import lithowave.cli, sys; print([name for name in {heavy!r} if name in sys.modules])"
    assert python(code) == "[]\n"
    times = []
    for _ in range(3):
        begin = children_time()
        python("import sys; sys.argv = ['lithowave', '--version']; from lithowave.cli import main; main()")
        times.append(children_time() - begin)
    assert min(times) < 1.0


def children_time() -> float:
    """Processor time of the processes that this one has waited for, s: other work on the machine does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_version():
    assert lithowave("--version") == f"lithowave {lw.__version__}\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "lithowave", "--version"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout) == (0, f"lithowave {lw.__version__}\n")


def test_wrong_usage_has_status_two():
    assert "No such command" in lithowave("rum", status=2)
    assert "--thread" in lithowave("run", "a.yaml", "--thread", "2", status=2)
    assert "--threads" in lithowave("run", "a.yaml", "--threads", "two", status=2)


# --- init, check


def test_init_writes_a_file_that_can_be_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "lithowave run simulation.yaml" in lithowave("init")
    assert "this run would work here" in lithowave("check", "simulation.yaml", "--no-measure")
    (tmp_path / "simulation.yaml").write_text("mine")
    assert "simulation.yaml: already exists" in lithowave("init", status=2)
    assert (tmp_path / "simulation.yaml").read_text() == "mine"
    lithowave("init", "--force")
    assert "schema_version: 1" in (tmp_path / "simulation.yaml").read_text()
    assert "cannot be written" in lithowave("init", "no/such/folder.yaml", status=1)


def test_check_tells_what_a_run_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_small(tmp_path, ("order: 4", "order: 4, max_frequency: 5"))
    text = lithowave("check", file, "--no-measure")
    for words in (
        "23 x 23 x 14 = 7,406 points",
        "spacing 100 m",
        "5.8 at vs = 2900 m/s everywhere",
        "% of the limit, set by vp = 5000 m/s everywhere",
        "; a sample every 0.02 s",
        "free",
        "warning",
    ):
        assert words in text, words
    assert "million points/s" not in text
    assert list(tmp_path.iterdir()) == [file], "nothing is made"

    report = json.loads(lithowave("check", file, "--json", *settings("solver.spacing=50", "duration=0.4")))
    assert report["plan"]["spacing_m"] == 50 and report["runnable"] is True and report["problems"] == []
    assert report["loop_s"] > 0 and report["rate_points_per_s"] > 0
    assert report["memory_bytes"] > report["plan"]["memory_bytes"]


def test_check_fails_where_the_run_would(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_small(tmp_path)
    with monkeypatch.context() as patch:
        limit_memory(patch, 10_000_000)
        text = lithowave("check", file, status=1)
        assert "PROBLEM  not enough memory" in text and "10 MB free" in text
        assert json.loads(lithowave("check", file, "--json", status=1))["runnable"] is False
    with monkeypatch.context() as patch:
        hide_packages(patch, "obspy")
        text = lithowave("check", file, *settings("output.formats=[sac]"), status=1)
        assert "obspy" in text and 'pip install "lithowave[formats]"' in text
        text = lithowave("run", file, *settings("output.formats=[sac]"), status=1)
        assert "error: Writing SAC needs the package obspy" in text
    limit_disk(monkeypatch, 900_000)
    assert "not enough disk space" in lithowave("check", file, "--no-measure", status=1)


@pytest.mark.parametrize(
    ("installed", "wanted", "remedy"),
    [
        ("", "[miniseed]", "[]"),
        ("", "[segy, sac]", "[]"),
        ("segyio", "[miniseed, segy, sac]", "[segy]"),
        ("obspy", "[miniseed, segy, sac]", "[miniseed, sac]"),
    ],
)
def test_a_run_without_the_package_of_a_format_is_told_and_works(tmp_path, monkeypatch, installed, wanted, remedy):
    if installed:
        pytest.importorskip(installed)
    file = write_small(tmp_path, ("formats: []", f"formats: {wanted}"), ("duration: 0.8", "duration: 0.05"))
    hide_packages(monkeypatch, *{"obspy", "segyio"} - {installed})
    text = lithowave("run", file, "--output", tmp_path / "run", status=1)
    assert not (tmp_path / "run").exists()
    without = text.strip().rpartition(", or run without it: ")[2]
    assert shlex.split(without) == ["--set", f"output.formats={remedy}"]
    assert without in lithowave("check", file, "--no-measure", status=1)
    lithowave("run", file, "--output", tmp_path / "run", *shlex.split(without))
    assert sorted(name for name in ("miniseed", "sac", "segy") if (tmp_path / "run" / name).exists()) == sorted(
        remedy.strip("[]").replace(",", "").split()
    )


def test_check_warns_of_a_folder_in_use(run, tmp_path):
    text = lithowave("check", write_small(tmp_path), "--no-measure", *settings(f"output.directory={run[0]}"))
    assert "contains another run" in text and "--overwrite" in text


# --- run


def test_run_says_what_matters(run):
    folder, text = run
    lines = [line for line in text.splitlines() if not line.startswith("warning: ")]
    begin = lines.index(f"small: to {folder}")
    assert lines[begin + 1].startswith("7,406 points, ")
    assert re.match(r"step (\d+) of \1 \(100%\), t = (\S+) of \2 s", lines[-5]) and "million points/s" in lines[-5]
    assert lines[-4].startswith("finished: in ") and lines[-3].startswith("efficiency: ")
    assert lines[-2:] == [f"results: {folder}", f"next:    lithowave plot {folder}"]


def test_run_warns_first(tmp_path):
    process = spawn("run", write_small(tmp_path), "--output", tmp_path / "out")
    assert process.returncode == 0 and process.errors.startswith("warning: sources[0].time_function: ")
    assert "warning: sources[0].time_function" in (tmp_path / "out" / "log.txt").read_text()
    assert process.output.startswith("small: to ")


def test_options_and_settings_reach_the_run(tmp_path):
    lithowave(
        "run", write_small(tmp_path), "--output", tmp_path / "out", "--threads", 1, "--backend", "cpu",
        *settings("title=other", "sources.0.double_couple.mw=5", "output.snapshots=[]", "duration=0.2"),
    )  # fmt: skip
    resolved = lw.Simulation.from_file(tmp_path / "out" / "simulation.yaml")
    assert (resolved.title, resolved.sources[0].double_couple.mw, resolved.duration) == ("other", 5, 0.2)


def test_a_fault_of_the_program_keeps_its_traceback(tmp_path):
    before = """
        import lithowave.run.launch
        def fault(*arguments, **keywords):
            raise ZeroDivisionError("a fault")
        lithowave.run.launch.run_simulation = fault
    """
    process = spawn("run", write_small(tmp_path), before=before)
    assert process.returncode == 1
    lines = process.errors.splitlines()
    assert "Traceback (most recent call last):" in lines and "ZeroDivisionError: a fault" in lines
    assert "Please report it" in lines[-1] and "lithowave doctor" in lines[-1]


def test_a_reader_that_goes_away_does_not_stop_the_run(tmp_path):
    process = spawn("run", write_small(tmp_path), "--output", tmp_path / "out", wait=False)
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 0, errors
    assert report_of(tmp_path / "out")["exit_state"] == "finished"


def entries_at(step, rate=2.5e8):
    """What a run tells at a step of 1000."""
    return {
        "points": 1_000_000, "step": step, "steps": 1000, "time_s": 0.01 * step, "end_s": 10.0,
        "elapsed_s": step / 250, "remaining_s": (1000 - step) / 250 if step else None,
        "rate_points_per_s": rate if step else None, "unit": "points",
    }  # fmt: skip


def test_lines_come_every_few_seconds_and_at_the_end(monkeypatch, capsys):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with progress.progress_display("title: to folder", 5.0) as show:
        for step in range(0, 1001, 50):
            show(entries_at(step))
            clock[0] += 0.6
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "title: to folder" and lines[1].startswith("1,000,000 points, 1,000 steps to t = 10 s")
    assert [line.split()[1] for line in lines[2:]] == ["450", "900", "1000"]
    assert lines[2] == "step 450 of 1000 (45%), t = 4.5 of 10 s, 250 million points/s, 2.2 s remaining"
    assert lines[-1] == "step 1000 of 1000 (100%), t = 10 of 10 s, 250 million points/s"


def test_a_terminal_gets_a_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "console", lambda: Console(file=screen, force_terminal=True, width=120))
    with progress.progress_display("title: to folder") as show:
        for step in (0, 450, 1000):
            show(entries_at(step))
    text = screen.getvalue()
    assert "title: to folder" in text and "100%" in text
    assert "t = 4.5 of 10 s, 250 million points/s, 2.2 s remaining" in text


def test_tables_are_plain_without_a_terminal_and_folded_on_one(monkeypatch, capsys):
    rows = [("name", "a value " * 30, "red"), ("longer name", "[0] stays as it is", "")]
    printing.print_rows(rows)
    plain = capsys.readouterr().out
    assert plain.splitlines() == [
        "       name  " + ("a value " * 30).strip(),
        "longer name  [0] stays as it is",
    ]
    screen = io.StringIO()
    monkeypatch.setattr(
        printing, "console", lambda: Console(file=screen, force_terminal=True, width=60, markup=False)
    )
    printing.print_rows(rows)
    assert len(screen.getvalue().splitlines()) > 4 and "[0] stays" in screen.getvalue()


# --- plot, compare, bench, doctor


def test_plot_draws_and_names_the_figures(run):
    names = lithowave("plot", run[0]).split()
    assert {"map.png", "record_section.png", "traces.png"} <= {name.rsplit("/", 1)[1] for name in names}
    assert all(os.path.getsize(name) > 1000 for name in names)


def test_compare(run, tmp_path):
    folder = run[0]
    assert lithowave("compare", folder, folder).rstrip().splitlines()[-1].split()[:2] == ["all", "0.000%"]
    louder = tmp_path / "louder"
    source = folder / "simulation.yaml"
    lithowave("run", source, "--output", louder, *settings("sources.0.double_couple.mw=4.2"))
    result = json.loads(lithowave("compare", louder, folder, "--json", "--figure", tmp_path / "figure.png"))
    assert result["overall_relative_l2"] == pytest.approx(10**0.3 - 1, rel=1e-3)
    assert [row["name"] for row in result["receivers"]] == ["XX.S01", "XX.L1", "XX.L2", "XX.L3"]
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert result["run_method"] == result["reference_method"] == "finite difference (order 4)"
    low = json.loads(lithowave("compare", louder, folder, "--fmax", 4, "--json"))
    assert low["max_frequency"] == 4.0 and low["overall_relative_l2"] == pytest.approx(10**0.3 - 1, rel=1e-3)
    assert "--fmax: 25 Hz is out of range" in lithowave("compare", louder, folder, "--fmax", 25, status=2)
    assert f"figure:  {tmp_path}/two.png" in lithowave(
        "compare", folder, folder, "--figure", tmp_path / "two.png"
    )


def test_json_has_no_values_that_json_does_not_know():
    text = json_text({"a": float("nan"), "b": [float("inf"), 1.5], "c": {1: None}})
    assert json.loads(text) == {"a": None, "b": [None, 1.5], "c": {"1": None}}


def test_bench_prints_a_table(monkeypatch):
    record = {
        "case": "full", "size": [60, 50, 40], "order": 8, "precision": "single", "threads": 2, "rate": 1.5e8,
        "device": "a processor", "method": "finite_difference", "unit": "points/s",
        "bytes_per_point": 120.0, "limit": 3e8, "limit_fraction": 0.5,
        "bandwidth": {"copy": 2e10, "update": 2.5e10},
    }  # fmt: skip
    records = [record, record | {"case": "run", "fraction_of_bare_kernels": 0.91}]
    called = []
    monkeypatch.setattr("lithowave.bench.run_benchmarks", lambda **keywords: called.append(keywords) or records)
    rows = lithowave("bench", "--size", "60x50x40,64", "--size", 48, "--order", "4, 5", "--order", 6).splitlines()
    assert rows[1].split() == ["full", "60x50x40", "8", "single", "2", "150.0", "120", "300.0", "50%"]
    assert rows[2].split()[-1] == "91%" and "(a processor, single): copy 20 GB/s, update 25 GB/s" in rows[3]
    assert called[0]["sizes"] == [(60, 50, 40), (64, 64, 64), (48, 48, 48)] and called[0]["orders"] == [4, 5, 6]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "12"], "12 points are too few to measure; allowed: from"),
        (["--size", "a"], "'a' is not a grid size"),
        (["--size", "64,60x50"], "'60x50' is not a grid size"),
        (["--backend", "gpu"], "allowed: auto, cpu, cuda"),
        (["--passes", "three"], "allowed: auto, one, two"),
        (["--receivers", "0"], "--receivers: 0 is out of range"),
        (["--size", "48", "--layer-cells", "30"], "--layer-cells: 30 is too thick; use at least 68 points"),
        (["--order", "9"], "9 is not a valid choice; allowed: 2, 3, 4, 5, 6, 7, 8"),
        (["--method", "finite_difference", "--order", "5"], "5 is not an order of finite_difference; allowed: 2, 4,"),
        (["--method", "discontinuous_galerkin", "--order", "8"], "8 is not an order of discontinuous_galerkin"),
        (["--order", "8", "--order", "7"], "2, 3, 4, 5, 6, 7 of discontinuous_galerkin"),
        (["--method", "discontinuous_galerkin", "--size", "2"], "2 cubes are too few to measure; allowed: from 3"),
        (["--precision", "singel"], "did you mean 'single'?"),
        (["--method", "spectral_elements"], "did you mean 'spectral_element'?"),
        (["--degree", "4,9"], "9 is not a valid choice; allowed: 2, 3, 4, 5, 6, 7, 8"),
        (["--degree", "four"], "'four' is not an integer"),
        (["--order", "4,five"], "--order: 'five' is not an integer"),
        (["--case", "full,lokal"], "did you mean 'local'?"),
        (["--method", "spectral_element", "--size", "3"], "3 elements are too few to measure; allowed: from 4"),
        (["--method", "spectral_element", "--size", "8", "--order", "4"], "orders is not supported by"),
        (["--case", "ful"], "did you mean 'full'?"),
        (["--threads", "0"], "allowed: from 1"),
        (["--json", "no/such/folder.json"], "no/such is not a directory"),
    ],
)
def test_bench_refuses_what_it_does_not_know(arguments, words):
    assert words in lithowave("bench", *arguments, status=2)


def test_doctor_answers_on_any_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = json.loads(lithowave("doctor", "--json"))
    assert found["gpu"]["devices"] == [] and found["mpi"]["mpiexec"] is None and found["problems"] == []
    assert (
        found["packages"]["numba"] and found["cpu"]["usable_cores"] >= 1 and found["memory"]["free_bytes"] > 0
    )
    assert found["cpu"]["threading_layer"] in ("omp", "tbb", "workqueue") and found["cpu"]["cache_writable"]


@pytest.mark.slow
def test_a_title_that_the_terminal_cannot_show_is_replaced(tmp_path):
    file = write_small(tmp_path, ("title: small", "title: 'Übung π 地震'"), ("duration: 0.8", "duration: 0.05"))
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    folder = tmp_path / "run"
    for arguments in (
        ("check", file, "--no-measure"), ("run", file, "--output", folder), ("status", folder), ("plot", folder),
        ("compare", folder, folder), ("check", file, "--no-measure", "--json"),
    ):  # fmt: skip
        command = [sys.executable, "-m", "lithowave", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, env={**os.environ, **locale})
        assert done.returncode == 0, done.stderr.decode()
        if arguments[0] in ("check", "run") and "--json" not in arguments:
            assert b"?bung ? ??" in done.stdout
    assert "title: Übung π 地震" in (folder / "simulation.yaml").read_text(encoding="utf-8")
    assert lw.load_seismograms(folder).title == "Übung π 地震"


def test_doctor_tells_devices_and_mpi(tmp_path, monkeypatch):
    programs = {
        "nvidia-smi": "echo 'NVIDIA H200, 570.1, 143771 MiB, 143000 MiB'",
        "mpiexec": "echo 'mpiexec (OpenRTE) 4.1'; echo more",
    }
    for name, command in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    text = lithowave("doctor")
    assert "NVIDIA H200, driver 570.1, 143771 MiB" in text and "mpiexec (OpenRTE) 4.1" in text
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'no devices were found'; exit 9\n")
    assert doctor.driver_devices() == []


def test_doctor_knows_launchers_of_another_mpi(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "mpi_library", lambda: ("MPICH Version: 5.0.2", ""))
    monkeypatch.setattr(doctor, "installed", lambda name: "4.1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    launcher = tmp_path / "mpiexec"

    def examined(version):
        launcher.write_text(f"#!/bin/sh\nprintf '{version}'\n")
        launcher.chmod(0o755)
        return json.loads(lithowave("doctor", "--json"))["mpi"]["same_mpi"], lithowave("doctor")

    hydra = "HYDRA build details:\\n    Version:    5.0.2\\n"
    for version, same, words in (
        (hydra, True, "Hydra, Version: 5.0.2; same MPI as mpi4py"),
        ("mpirun (Open MPI) 5.0.3\\n", False, "mpirun (Open MPI) 5.0.3; NOT the MPI of mpi4py"),
        ("launcher 1.0\\n", None, "launcher 1.0"),
    ):
        is_same, text = examined(version)
        assert is_same is same and f"{launcher}: {words}" in text
    assert [doctor.mpi_kind(text) for text in ("Intel(R) MPI Library 2021.12", "MVAPICH 4.0", "PRRTE 3", "")] == [
        "Intel MPI", "MPICH", "Open MPI", None,
    ]  # fmt: skip


def test_doctor_asks_the_mpi_library_in_a_process_of_its_own():
    pytest.importorskip("mpi4py")
    code = "import sys; from lithowave import doctor; print(doctor.mpi_library()); print('mpi4py.MPI' in sys.modules)"
    told, loaded = python(code).splitlines()
    assert doctor.mpi_kind(told) and loaded == "False"


def test_a_profile_shows_all_phases_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    text = lithowave("run", write_small(tmp_path), "--output", folder, "--profile")
    phases = report_of(folder)["phases"]
    names = {"plan", "materials", "kernels", "sources", "first step", "other steps"}
    assert names <= {one["name"] for one in phases}
    rows = {line[:24].strip(): line[24:].split()[0] for line in text.splitlines() if "%" in line[24:48]}
    for one in phases:
        assert float(rows[one["name"]]) == pytest.approx(one["wall_s"], abs=6e-4)
        assert one["peak_bytes"] > 1e7
