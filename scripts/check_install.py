"""Check the wheel in environments that contain nothing else: ``python scripts/check_install.py [PART ...]``.

The wheel is built from the checkout and installed with the newest and with the oldest versions of the packages that
pyproject.toml allows. In each of the two environments, every command that needs no extra runs a small example, and
every feature of an extra names it. Then each extra is added to the environment, without the other extras, and its
feature is used. Commands run in a temporary folder, without PYTHONPATH. The two environments are checked at the same
time, with one thread each. The last line contains the numbers of passed and failed checks, and the exit status is 1 if
a check failed.

The lower bounds are those for Python 3.11: other versions of Python may need newer packages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PARTS = ("newest", "oldest")
SECONDS = 900  # limit of a command
VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME")

EXAMPLE = """\
title: small
domain: {x: [-1500, 1500], y: [-1500, 1500], z: [-1500, 0]}
material: {homogeneous: {vp: 5000, vs: 2900, rho: 2600, qp: 200, qs: 100}}
sources:
  - position: [30, -20, -700]
    double_couple: {strike: 30, dip: 60, rake: 90, mw: 4}
    time_function: {gaussian: {sigma: 0.2}}
receivers:
  - {network: XX, name: S01, position: [700, 450, 0]}
  - {network: XX, name: S02, position: [-600, 550, 0]}
duration: 1.6
solver: {method: finite_difference, max_frequency: 2}
compute: {backend: cpu, threads: 1}
output:
  sampling_interval: 0.02
  snapshots: {interval: 0.2, plane: {z: 0}}
"""
ELASTIC = "material.homogeneous={vp: 5000, vs: 2900, rho: 2600}"
OBSERVED = (
    "TIMESERIES XX_S01__HHZ_R, 4 samples, 50 sps, 1970-01-01T00:00:00.000000, SLIST, INTEGER, Counts\n0\t1\t2\t1\n"
)
SURVEY = "survey:\n  shots: {line: {start: [-200, 0, -700], end: [200, 0, -700], count: 2}}\n"
TETRAHEDRA = """\
from lithowave.mesh.gmsh_writing import write_gmsh
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.tetrahedral_boxes import split_hexahedra
mesh = split_hexahedra(layered_box((-1500, 1500), (-1500, 1500), [0, -1500], [(750, 750)]))
write_gmsh("box.msh", mesh)
"""
VTU = """\
import meshio, numpy
from lithowave.mesh.gmsh_writing import right_handed
from lithowave.mesh.imported import read_tetrahedral_mesh
mesh = read_tetrahedral_mesh("box.msh", "mesh")
cells = [("tetra", right_handed(mesh.vertices, mesh.elements))]
groups = {"gmsh:physical": [numpy.ones(len(mesh.elements), int)]}
meshio.write("box.vtu", meshio.Mesh(mesh.vertices, cells, cell_data=groups))
assert read_tetrahedral_mesh("box.vtu", "mesh").element_count == mesh.element_count
"""
DATA = """\
import lithowave as lw
seismograms = lw.load_seismograms("out/fd")
assert seismograms.to_xarray()["velocity"].shape == (2, 3, len(seismograms.time))
assert len(lw.compare_runs("out/fd", "out/fd").to_pandas()) == 2
"""
DASK = """\
import subprocess, sys
from bokeh.plotting import figure
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        command = ["run", "survey.yaml", "--output", "out/dask", "--scheduler", cluster.scheduler_address]
        sys.exit(subprocess.run([sys.executable, "-m", "lithowave", *command]).returncode)
"""
VERSIONS = """\
import sys
from importlib.metadata import version
from lithowave import __file__ as file
assert "site-packages" in file, file
for pinned in sys.argv[1:]:
    name, _, wanted = pinned.partition("==")
    found = [version(name).split("+")[0].split("."), wanted.split(".")]
    length = max(map(len, found))
    first, second = ([*parts, *"0" * (length - len(parts))] for parts in found)
    assert first == second, f"{name} {version(name)} is installed instead of {wanted}"
"""


class CheckError(Exception):
    """A check failed; the text contains the command and its output."""


class Results:
    """The numbers of passed and failed checks, and a printed line for each."""

    def __init__(self) -> None:
        self.passed, self.failed, self.skipped = 0, 0, 0
        self._lock = threading.Lock()

    def note(self, name: str, check: Callable[[], object]) -> bool:
        """Run a check and print its result; return True if it passed."""
        start, problem = time.monotonic(), ""
        try:
            check()
        except (CheckError, OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        with self._lock:
            self.passed, self.failed = self.passed + (not problem), self.failed + bool(problem)
            seconds = time.monotonic() - start
            print(f"{'FAILED' if problem else 'passed'}  {seconds:5.1f} s  {name}", flush=True)
            if problem:
                print("    " + problem.replace("\n", "\n    "), flush=True)
        return not problem

    def skip(self, name: str, reason: str) -> None:
        """Print that checks were skipped."""
        with self._lock:
            self.skipped += 1
            print(f"skipped           {name}: {reason}", flush=True)


def oldest(requirements: list[str]) -> list[str]:
    """Return the lower bounds of requirements as constraints of pip: ``numpy>=1.26`` becomes ``numpy==1.26``."""
    pattern = re.compile(r"([\w.-]+)>=([\w.]+)")
    return [f"{name}=={version}" for name, version in (pattern.match(one).groups() for one in requirements)]


def call(command: list[object], folder: Path, status: int = 0, text: str = "") -> str:
    """Run a command; return its output.

    Raises
    ------
    CheckError : the exit status is another one, the output does not contain the text, or the command does not end.
    """
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"MPLBACKEND": "Agg", "PYTHONNOUSERSITE": "1", "NO_COLOR": "1", "COLUMNS": "200"}
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CheckError(f"{' '.join(words)}\ndoes not end within {SECONDS} s") from None
    if done.returncode != status or text not in done.stdout or (status != 1 and "Traceback" in done.stdout):
        wanted = f"expected {status}" + (f" and the text {text!r}" if text else "")
        raise CheckError(f"{' '.join(words)}\nexit status {done.returncode}, {wanted}\n{done.stdout[-3000:]}")
    return done.stdout


class Environment:
    """A virtual environment and a folder in which its commands run.

    base : environment whose packages are visible, too; packages of this one come first.
    """

    def __init__(self, folder: Path, interpreter: str, base: Environment | None = None) -> None:
        self.base = base
        self.work = folder / "work" if base is None else base.work
        self.work.mkdir(parents=True, exist_ok=True)
        self.python = folder / "bin" / "python"
        pip = [] if base is None else ["--without-pip"]
        call([interpreter, "-m", "venv", *pip, folder], self.work)
        if base is not None:
            [packages] = folder.glob("lib/python*/site-packages")
            (packages / "base.pth").write_text(f"{base.packages()}\n", encoding="utf-8")

    def packages(self) -> Path:
        """Return the folder of installed packages."""
        [packages] = self.python.parents[1].glob("lib/python*/site-packages")
        return packages

    def install(self, *requirements: object, constraints: list[str]) -> None:
        """Install packages by pip."""
        file = self.python.parents[1] / "constraints.txt"
        file.write_text("\n".join(constraints) + "\n", encoding="utf-8")
        pip = [(self.base or self).python, "-m", "pip", "--python", self.python, "--disable-pip-version-check"]
        call([*pip, "install", "--quiet", "--no-compile", "--constraint", file, *requirements], self.work)

    def lithowave(self, *arguments: object, status: int = 0, text: str = "") -> str:
        """Run a command of lithowave; see `call`."""
        return call([self.python, "-m", "lithowave", *arguments], self.work, status, text)

    def script(self, code: str, *arguments: object, status: int = 0, text: str = "") -> str:
        """Run Python code from a file; see `call`."""
        with tempfile.NamedTemporaryFile("w", suffix=".py", dir=self.work, delete=False, encoding="utf-8") as file:
            file.write(code)
        return call([self.python, file.name, *arguments], self.work, status, text)


def build_wheel(folder: Path, builder: Path) -> Path:
    """Build the wheel from a copy of the checkout, so that files of earlier builds have no effect."""
    source = folder / "source"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "src", source / "src", ignore=unwanted)
    for name in ("pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]):
        shutil.copy(ROOT / name, source)
    pip = [builder, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    call([*pip, "--wheel-dir", folder, source], folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def restarted(environment: Environment) -> None:
    """Stop a run by SIGTERM after its first step, resume it by ``lithowave restart``, and compare it with another run.

    Raises
    ------
    CheckError : the run was not stopped, or the motion of the resumed run differs.
    """
    folder, whole = environment.work / "out" / "stopped", environment.work / "out" / "whole"
    settings = [ELASTIC, "duration=20", "output.snapshots=[]", "output.progress_interval=0.5"]
    run = ["run", "small.yaml", *(word for setting in settings for word in ("--set", setting)), "--output"]
    command = [environment.python, "-m", "lithowave", *run, folder]
    variables = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    with subprocess.Popen(
        [str(word) for word in command], cwd=environment.work, env=variables, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("step ") and process.poll() is None:
                process.send_signal(signal.SIGTERM)
    if process.returncode != 128 + signal.SIGTERM:
        raise CheckError(f"the run was not stopped by SIGTERM: exit status {process.returncode}\n{''.join(lines)}")
    environment.lithowave("status", folder, text="stopped")
    environment.lithowave("restart", folder)
    environment.lithowave("status", folder, text="finished")
    environment.lithowave(*run, whole)
    code = "import sys, lithowave as lw\na, b = (lw.load_seismograms(f).data for f in sys.argv[1:])\n"
    environment.script(code + "assert a.shape == b.shape and (a == b).all() and a.any()", folder, whole)


def base_checks(environment: Environment, pinned: list[str]) -> dict[str, Callable[[], object]]:
    """Return the checks of the wheel without an extra, by name."""
    lithowave, setting = environment.lithowave, "--set"
    checks: dict[str, Callable[[], object]] = {
        "versions and place of the packages": lambda: environment.script(VERSIONS, *pinned),
        "lithowave, the program": lambda: call(
            [environment.python.with_name("lithowave"), "--version"], environment.work
        ),
        "doctor": lambda: lithowave("doctor", text="no problems"),
        "check": lambda: lithowave("check", "small.yaml", setting, ELASTIC, text="this run would work here"),
        "run, finite differences": lambda: lithowave(
            "run", "small.yaml", setting, ELASTIC, "--output", "out/fd", text="finished"
        ),
        "run, spectral elements with attenuation": lambda: lithowave(
            "run", "small.yaml", setting, "solver.method=spectral_element", setting, "boundaries.sides=rigid",
            "--output", "out/sem", text="finished",
        ),  # layers on all sides would require many kernels
        "run, discontinuous Galerkin": lambda: lithowave(
            "run", "small.yaml", setting, ELASTIC, setting, "solver.method=discontinuous_galerkin",
            "--output", "out/dg", text="finished",
        ),
        "run, a survey": lambda: lithowave("run", "survey.yaml", "--output", "out/survey", text="finished"),
        "status, a survey": lambda: lithowave("status", "out/survey"),
        "stop, restart, status": lambda: restarted(environment),
        "agree": lambda: lithowave(
            "agree", "small.yaml", setting, ELASTIC, "--methods", "finite_difference,spectral_element", "--no-measure",
            "--tolerance", "20%", "--output", "out/agree",
        ),
        "compare": lambda: lithowave(
            "compare", "out/fd", "out/dg", "--figure", "out/comparison.png", text='formats'
        ),
        "plot": lambda: lithowave("plot", "out/fd", text="traces"),
        "plot, a survey": lambda: lithowave("plot", "out/survey"),
        "plot, the material": lambda: lithowave("plot", "--model", "small.yaml", text="small_model.png"),
        "join": lambda: lithowave("join", "out/fd", text="no snapshot parts"),
        "submit": lambda: lithowave("submit", "small.yaml", "--print", "--time", "0:10:00", text="#SBATCH"),
        "a mesh of tetrahedra": lambda: environment.script(TETRAHEDRA),
        "convert": lambda: lithowave("convert", "box.msh", "converted.msh"),
    }  # fmt: skip
    for template in ("complete", "earthquake", "finite_fault", "survey", "globe"):
        checks[f"init, {template}"] = lambda name=template: lithowave("init", f"my_{name}.yaml", "--template", name)
        if template != "finite_fault":  # which reads a file of the user
            checks[f"check, {template}"] = lambda name=template: lithowave(
                "check", f"my_{name}.yaml", "--no-measure", setting, "output.formats=[]", text="would work here"
            )
    for method, more in (
        ("finite_difference", ["--size", "40", "--case", "run"]),
        ("spectral_element", ["--size", "4", "--case", "affine"]),
        ("discontinuous_galerkin", ["--size", "4", "--case", "global"]),
    ):  # fmt: skip
        checks[f"bench, {method}"] = lambda name=method, more=more: lithowave(
            "bench", "--backend", "cpu", "--threads", "1", "--method", name, *more
        )
    for extra, name, words in MISSING:
        use = environment.script if len(words) == 1 else lithowave
        checks[f"without the extra {extra}: {name}"] = lambda use=use, words=words, extra=extra: use(
            *words, status=1, text=f'"lithowave[{extra}]"'
        )
    return checks


RUN = ("run", "small.yaml", "--set", ELASTIC, "--output", "out/extra", "--overwrite")
MISSING = (
    *(("formats", name, (*RUN, "--set", f"output.formats=[{name}]")) for name in ("miniseed", "sac", "segy")),
    ("formats", "observed data", ("compare", "out/fd", "observed.slist")),
    ("formats", "travel times", ("from lithowave.earth import travel_times\ntravel_times('prem', 0, 30)",)),
    ("report", "report", ("report", "out/fd")),
    ("report", "run --report", (*RUN, "--report")),
    ("dask", "surveys", ("run", "survey.yaml", "--output", "out/dask", "--scheduler", "tcp://127.0.0.1:1")),
    ("data", "Datasets", ("import lithowave as lw\nlw.load_seismograms('out/fd').to_xarray()",)),
    ("data", "DataFrames", ("import lithowave as lw\nlw.compare_runs('out/fd', 'out/fd').to_pandas()",)),
    ("meshes", "VTU", ("from lithowave.mesh.imported import read_tetrahedral_mesh as read\n"
                       "open('empty.vtu', 'w').close()\nread('empty.vtu', 'mesh')",)),
)  # fmt: skip
"""Features of extras, as (extra, name, words of a command or one piece of Python code), which fail without them."""


def use_extra(environment: Environment, extra: str) -> None:
    """Use the features of an extra."""
    lithowave = environment.lithowave
    if extra == "formats":
        lithowave(*RUN, "--set", "output.formats=[miniseed, sac, asdf, segy]", text="finished")
        lithowave("compare", "out/extra", "out/extra/miniseed", "--origin-time", "1970-01-01T00:00:00")
        lithowave("plot", "out/extra", text="traces")
    elif extra == "report":
        lithowave(*RUN, "--report", text="finished")
        lithowave("report", "out/fd", text="report.html")
    elif extra == "data":
        environment.script(DATA)
    elif extra == "meshes":
        environment.script(VTU)
    elif extra == "dask":
        environment.script(DASK, text="finished")
    elif extra == "mpi":
        mpiexec = environment.python.with_name("mpiexec")
        command = ["run", "small.yaml", "--set", ELASTIC, "--output", "out/ranks"]
        call([mpiexec, "-n", 2, environment.python, "-m", "lithowave", *command], environment.work, text="finished")
        environment.script(
            "import lithowave as lw\n"
            "a, b = (lw.load_seismograms(f'out/{name}').data for name in ('fd', 'ranks'))\n"
            "assert (a == b).all() and a.any()\nimport pymetis\n"
        )
    else:
        environment.script(f"import cupy, importlib.metadata as m\nassert m.version('cupy-{extra}x')")
        lithowave("doctor", text=f"cupy-{extra}x")
    lithowave("doctor")


def check_part(part: str, folder: Path, wheel: Path, interpreter: str, extras: list[str], results: Results) -> None:
    """Check the wheel with the newest or with the oldest versions of the packages."""
    pinned = oldest(PROJECT["dependencies"]) if part == "oldest" else []
    environments = []

    def make() -> None:
        environments.append(Environment(folder / "base", interpreter))
        environments[0].install(wheel, constraints=pinned)

    if not results.note(f"{part}: installation", make):
        return
    [base] = environments
    (base.work / "small.yaml").write_text(EXAMPLE, encoding="utf-8")
    (base.work / "observed.slist").write_text(OBSERVED, encoding="utf-8")
    survey = EXAMPLE.replace("{vp: 5000, vs: 2900, rho: 2600, qp: 200, qs: 100}", ELASTIC.partition("=")[2])
    survey = survey.partition("  snapshots")[0].replace("duration: 1.6", SURVEY + "duration: 0.8")
    (base.work / "survey.yaml").write_text(survey, encoding="utf-8")
    for name, check in base_checks(base, pinned).items():
        results.note(f"{part}: {name}", check)
    for extra in extras:
        if extra.startswith("cuda") and part == "oldest":
            continue  # no device could run kernels here, and CuPy itself selects the versions of CUDA

        def check_extra(extra: str = extra) -> None:
            environment = Environment(folder / extra, interpreter, base)
            constraints = pinned + (oldest(EXTRAS[extra]) if part == "oldest" else [])
            environment.install(f"{wheel}[{extra}]", constraints=constraints)
            use_extra(environment, extra)

        results.note(f"{part}: extra {extra}", check_extra)


def main() -> int:
    """Run the checks; return the exit status."""
    features = [extra for extra in EXTRAS if extra not in ("test", "docs", "dev")]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="newest, oldest or both (default: both)")
    parser.add_argument("--extra", action="append", choices=features, help="only this extra; may be repeated")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; allowed: {', '.join(PARTS)}")
    parts, extras = given.parts or PARTS, given.extra or features
    results, start = Results(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lithowave-install-") as name:
        folder = Path(name)
        wheels: list[Path] = []
        folder.joinpath("wheel").mkdir()
        if results.note("wheel", lambda: wheels.append(build_wheel(folder / "wheel", Path(sys.executable)))):
            interpreters = {"newest": sys.executable, "oldest": python_311()}
            with ThreadPoolExecutor(len(PARTS)) as pool:
                waiting = []
                for part in parts:
                    interpreter = interpreters[part]
                    if interpreter is None:
                        results.skip(part, "no python3.11 was found, whose packages the lower bounds are for")
                        continue
                    task = check_part, part, folder / part, wheels[0], interpreter, extras, results
                    waiting.append(pool.submit(*task))
                for one in waiting:
                    one.result()
    numbers = f"{results.passed} passed, {results.failed} failed"
    skipped = f", {results.skipped} skipped" if results.skipped else ""
    print(f"installation: {numbers}{skipped} in {time.monotonic() - start:.0f} s")
    return int(results.failed > 0)


def python_311() -> str | None:
    """Return an interpreter of Python 3.11, the oldest version that lithowave supports; None if there is none."""
    return sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")


if __name__ == "__main__":
    sys.exit(main())
