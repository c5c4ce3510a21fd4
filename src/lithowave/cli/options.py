"""Arguments and options of the commands, as annotated types."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def option(metavar: str, text: str, *names: str) -> Any:
    """Return an option with a value and this help; default of the names: that of the parameter."""
    return typer.Option(*names, metavar=metavar, help=text)


def flag(name: str, text: str) -> Any:
    """Return an option without a value, with this help."""
    return typer.Option(name, help=text)


SimulationFile = Annotated[Path, typer.Argument(metavar="FILE", help="The simulation file (YAML).")]
RunDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The run folder.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run or of a survey.")]
Changes = Annotated[
    list[str] | None,
    option("KEY=VALUE", "Replace an entry of the file, for example solver.order=8; may be repeated.", "--set"),
]
Backend = Annotated[str | None, option("NAME", "Select the device: auto, cpu or cuda.")]
Precision = Annotated[str | None, option("NAME", "Select the precision: single or double.")]
Threads = Annotated[int | None, option("N", "Set the threads of the CPU backend (default: all cores).")]
Scheduler = Annotated[
    str | None,
    option(
        "ADDRESS",
        "Run the shots of a survey on the workers of a Dask scheduler (tcp://host:8786, or its scheduler file).",
    ),
]
RunOutput = Annotated[str | None, option("DIR", "Set the run folder (default: output.directory).", "--output", "-o")]
WithReport = Annotated[bool, flag("--report", "Write report.html to the run folder at the end.")]
AsJson = Annotated[bool, flag("--json", "Print JSON instead of text.")]

# run
OverwriteRun = Annotated[bool, flag("--overwrite", "Replace another run in the run folder.")]
Shot = Annotated[
    str | None,
    option(
        "N",
        "Run only shot N of the survey (1, 2, ..., or 'array': SLURM_ARRAY_TASK_ID; default: all shots).",
        "--shot",
    ),
]
DryRun = Annotated[bool, flag("--dry-run", "Report the requirements of the run as `lithowave check`, and exit.")]
Profile = Annotated[bool, flag("--profile", "Print the times of the phases of the run (phases in run.json).")]

# submit
CpuRanks = Annotated[int | None, option("N", "Set the number of ranks of a run on CPUs (default: 1).", "--ranks")]
Gpus = Annotated[int | None, option("N", "Set the number of GPUs of a run, with one rank each.", "--gpus")]
RanksPerNode = Annotated[
    int | None, option("N", "Set the ranks per node (default: all on one node).", "--ranks-per-node")
]
CoresPerRank = Annotated[
    int | None,
    option("N", "Set the cores per rank (default: the cores of this machine, shared; at most 4 with a GPU)."),
]
TimeLimit = Annotated[
    str | None, option("TIME", "Set the time limit, H:MM:SS (default: the predicted time plus a margin).", "--time")
]
Partition = Annotated[str | None, option("NAME", "Select a partition of the cluster.")]
Account = Annotated[str | None, option("NAME", "Select the account to charge.")]
Launcher = Annotated[str, option("NAME", "Select the MPI launcher: srun or mpiexec (default: srun).")]
SrunMpi = Annotated[str | None, option("NAME", "Set the option --mpi of srun: pmix, pmi2, cray_shasta.", "--mpi")]
ScriptLines = Annotated[
    list[str] | None,
    option(
        "LINE",
        "Add a line to the script before the run, for example module load ...; may be repeated.",
        "--before",
    ),
]
OnlyPrint = Annotated[bool, flag("--print", "Print the script without submitting it.")]

# compare
Reference = Annotated[
    Path,
    typer.Argument(
        metavar="DIR_OR_DATA",
        help="The folder of the reference run, or observed seismograms: a file or folder of MiniSEED, SAC, SEG-Y, "
        "ASDF or text of SPECFEM (.semd, .semv, .sema).",
    ),
]
FigurePath = Annotated[Path | None, option("PATH", "Draw the comparison to this file.")]
ReportPath = Annotated[
    Path | None, option("FILE", "Write an HTML file with misfits and all traces of two runs.", "--report")
]
MaxFrequency = Annotated[
    float | None,
    option(
        "HZ",
        "Apply a zero-phase low-pass filter at this frequency before the comparison (default with data: the maximum "
        "frequency of the run).",
        "--fmax",
    ),
]
MinFrequency = Annotated[
    float | None, option("HZ", "With data: the lower corner of the filter (default: no high-pass).", "--fmin")
]
WindowStart = Annotated[float | None, option("S", "With data: start of the window on the time axis of the run.")]
WindowEnd = Annotated[float | None, option("S", "With data: end of the window.")]
ObservedQuantity = Annotated[
    str | None,
    option(
        "NAME",
        "Quantity of the data in m, m/s or m/s^2: displacement, velocity or acceleration (default: that of the run).",
    ),
]
OriginTime = Annotated[str | None, option("UTC", "With data: origin time of the event (default: that of the run).")]
MaxShift = Annotated[float | None, option("S", "With data: the largest time shift (default: a quarter of the window).")]
Channels = Annotated[
    list[str] | None, option("PATTERN", "With data: use channels such as HH? or 00.BH?; may be repeated.")
]
Rotate = Annotated[bool, flag("--rotate", "With data: compare radial and transverse components.")]

# agree
MethodNames = Annotated[
    list[str] | None,
    option(
        "NAMES",
        "Select at least two methods: finite_difference, spectral_element, discontinuous_galerkin; separated by "
        "commas or repeated (default: all methods that support the file).",
        "--methods",
    ),
]
Tolerance = Annotated[
    str,
    option(
        "VALUE",
        "Set the largest relative L2 misfit of a receiver that counts as agreement, for example 2% or 0.02 (default: "
        "5%).",
    ),
]
AgreementOutput = Annotated[
    str | None,
    option("DIR", "Set the folder of all runs (default: output.directory with suffix _agree).", "--output", "-o"),
]
Full = Annotated[bool, flag("--full", "Run all methods finer and wider, also if they agree.")]
OnlyForecast = Annotated[bool, flag("--dry-run", "Print the planned runs and their predicted times, and exit.")]
Prepare = Annotated[bool, flag("--prepare", "Write a simulation file for each planned run to the folder, and exit.")]
OverwriteRuns = Annotated[bool, flag("--overwrite", "Replace runs of other descriptions in the folder.")]
Refinement = Annotated[
    float, option("RATIO", "Set the ratio of the points per wavelength of finer runs, 1.1 to 4 (default: 1.4).")
]
SolverEntries = Annotated[
    list[str] | None,
    option(
        "METHOD.KEY=VALUE",
        "Set an entry of solver for one method, for example spectral_element.points_per_wavelength=9; may be repeated.",
        "--solver",
    ),
]
MeasureRuns = Annotated[
    bool,
    flag(
        "--measure/--no-measure",
        "Measure this machine for a few seconds to predict the run times (default: measure).",
    ),
]
ResultsJson = Annotated[Path | None, option("FILE", "Also write the results to this JSON file.", "--json")]

# bench
Methods = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Select methods: finite_difference, spectral_element or discontinuous_galerkin; separated by commas or "
        "repeated (default: all methods that support the other options).",
        "--method",
    ),
]
Sizes = Annotated[
    list[str] | None,
    option(
        "N or NXxNYxNZ",
        "Set the number of grid points, including absorbing layers: 200, 300x200x100; separated by commas or repeated "
        "(default: 200 on a CPU, 512 on a CUDA device). With --method spectral_element, the number of elements "
        "(default: 20 on a CPU, 77x77x76 on a CUDA device). With --method discontinuous_galerkin, the number of cubes "
        "of twelve tetrahedra (default: 16 on a CPU, 43x43x42 on a CUDA device; 14 and 42 with local time stepping). "
        "With --case default, the sides of the domain in km (default: 6x6x3 on a CPU, 36x36x12 on a CUDA device).",
        "--size",
    ),
]
Orders = Annotated[
    list[str] | None,
    option(
        "N",
        "Set the order: 2, 4, 6 or 8 for finite differences, 2 to 7 for discontinuous Galerkin; separated by commas "
        "or repeated. Methods without this order are omitted, or rejected if selected by --method.",
        "--order",
    ),
]
Degrees = Annotated[
    list[str] | None,
    option("N", "Set the degree of spectral elements, 2 to 8; separated by commas or repeated.", "--degree"),
]
Precisions = Annotated[
    list[str] | None, option("NAME", "Select single or double; separated by commas or repeated.", "--precision")
]
Cases = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Select cases: interior, full or run (finite differences); affine, deformed, attenuating, affine_attenuating, "
        "curved, trilinear or fluid (spectral elements); global, local, attenuating or anisotropic (discontinuous "
        "Galerkin); separated by commas or repeated. Or default: entire runs of the first example of the README by all "
        "methods, elastic, with attenuation, and with outputs.",
        "--case",
    ),
]
Passes = Annotated[str | None, option("NAME", "Set solver.passes: auto, one or two passes over the grid per step.")]
Moduli = Annotated[str | None, option("NAME", "Set compute.moduli: full, or compact for 16 bits per material value.")]
Law = Annotated[str | None, option("NAME", "Set solver.effective_medium: isotropic, transverse or orthorhombic.")]
Attenuation = Annotated[
    str | None,
    option(
        "NAME",
        "Add attenuation, with solver.memory_variables: coarse or full (finite differences; default: none).",
    ),
]
LayerCells = Annotated[
    int | None, option("N", "Set the thickness of absorbing layers in full and run (default: 10, on CUDA 16).")
]
ReceiverCount = Annotated[
    int | None, option("N", "Set the number of receivers in full and run (default: 18, on CUDA 1000).")
]
Deterministic = Annotated[
    bool, flag("--deterministic", "Set compute.deterministic: spectral elements without atomic additions.")
]
RecordsJson = Annotated[Path | None, option("FILE", "Write the benchmark records to a JSON file.", "--json")]
