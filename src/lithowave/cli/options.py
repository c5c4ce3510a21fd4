"""Arguments and options of the commands, as annotated types."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SimulationFile = Annotated[Path, typer.Argument(metavar="FILE", help="The simulation file (YAML).")]
RunDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The run folder.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run or of a survey.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace an entry of the file, for example solver.order=8; may be repeated."
    ),
]
Backend = Annotated[str | None, typer.Option(metavar="NAME", help="Select the device: auto, cpu or cuda.")]
Precision = Annotated[str | None, typer.Option(metavar="NAME", help="Select the precision: single or double.")]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="Set the threads of the CPU backend (default: all cores).")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run the shots of a survey on the workers of a Dask scheduler (tcp://host:8786, or its scheduler file).",
    ),
]
RunOutput = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="DIR", help="Set the run folder (default: output.directory)."),
]
WithReport = Annotated[bool, typer.Option("--report", help="Write report.html to the run folder at the end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

# run
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Replace another run in the run folder.")]
Shot = Annotated[
    str | None,
    typer.Option(
        "--shot",
        metavar="N",
        help="Run only shot N of the survey (1, 2, ..., or 'array': SLURM_ARRAY_TASK_ID; default: all shots).",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Report the requirements of the run as `lithowave check`, and exit.")
]
Profile = Annotated[
    bool, typer.Option("--profile", help="Print the times of the phases of the run (phases in run.json).")
]

# submit
CpuRanks = Annotated[
    int | None, typer.Option("--ranks", metavar="N", help="Set the number of ranks of a run on CPUs (default: 1).")
]
Gpus = Annotated[
    int | None, typer.Option("--gpus", metavar="N", help="Set the number of GPUs of a run, with one rank each.")
]
RanksPerNode = Annotated[
    int | None,
    typer.Option("--ranks-per-node", metavar="N", help="Set the ranks per node (default: all on one node)."),
]
CoresPerRank = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Set the cores per rank (default: the cores of this machine, shared; at most 4 with a GPU)."
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="TIME", help="Set the time limit, H:MM:SS (default: the predicted time plus a margin)."
    ),
]
Partition = Annotated[str | None, typer.Option(metavar="NAME", help="Select a partition of the cluster.")]
Account = Annotated[str | None, typer.Option(metavar="NAME", help="Select the account to charge.")]
Launcher = Annotated[
    str, typer.Option(metavar="NAME", help="Select the MPI launcher: srun or mpiexec (default: srun).")
]
SrunMpi = Annotated[
    str | None, typer.Option("--mpi", metavar="NAME", help="Set the option --mpi of srun: pmix, pmi2, cray_shasta.")
]
ScriptLines = Annotated[
    list[str] | None,
    typer.Option(
        "--before",
        metavar="LINE",
        help="Add a line to the script before the run, for example module load ...; may be repeated.",
    ),
]
OnlyPrint = Annotated[bool, typer.Option("--print", help="Print the script without submitting it.")]

# compare
Reference = Annotated[
    Path,
    typer.Argument(
        metavar="DIR_OR_DATA",
        help="The folder of the reference run, or observed seismograms: a file or folder of MiniSEED, SAC, SEG-Y, "
        "ASDF or text of SPECFEM (.semd, .semv, .sema).",
    ),
]
FigurePath = Annotated[Path | None, typer.Option(metavar="PATH", help="Draw the comparison to this file.")]
ReportPath = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write an HTML file with misfits and all traces of two runs."),
]
MaxFrequency = Annotated[
    float | None,
    typer.Option(
        "--fmax",
        metavar="HZ",
        help="Apply a zero-phase low-pass filter at this frequency before the comparison (default with data: the "
        "maximum frequency of the run).",
    ),
]
MinFrequency = Annotated[
    float | None,
    typer.Option("--fmin", metavar="HZ", help="With data: the lower corner of the filter (default: no high-pass)."),
]
WindowStart = Annotated[
    float | None, typer.Option(metavar="S", help="With data: start of the window on the time axis of the run.")
]
WindowEnd = Annotated[float | None, typer.Option(metavar="S", help="With data: end of the window.")]
ObservedQuantity = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Quantity of the data in m, m/s or m/s^2: displacement, velocity or acceleration (default: that of "
        "the run).",
    ),
]
OriginTime = Annotated[
    str | None, typer.Option(metavar="UTC", help="With data: origin time of the event (default: that of the run).")
]
MaxShift = Annotated[
    float | None,
    typer.Option(metavar="S", help="With data: the largest time shift (default: a quarter of the window)."),
]
Channels = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="With data: use channels such as HH? or 00.BH?; may be repeated."),
]
Rotate = Annotated[bool, typer.Option("--rotate", help="With data: compare radial and transverse components.")]

# agree
MethodNames = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        metavar="NAMES",
        help="Select at least two methods: finite_difference, spectral_element, discontinuous_galerkin; separated "
        "by commas or repeated (default: all methods that support the file).",
    ),
]
Tolerance = Annotated[
    str,
    typer.Option(
        metavar="VALUE",
        help="Set the largest relative L2 misfit of a receiver that counts as agreement, for example 2% or 0.02 "
        "(default: 5%).",
    ),
]
AgreementOutput = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Set the folder of all runs (default: output.directory with suffix _agree).",
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Run all methods finer and wider, also if they agree.")]
OnlyForecast = Annotated[
    bool, typer.Option("--dry-run", help="Print the planned runs and their predicted times, and exit.")
]
Prepare = Annotated[
    bool, typer.Option("--prepare", help="Write a simulation file for each planned run to the folder, and exit.")
]
OverwriteRuns = Annotated[
    bool, typer.Option("--overwrite", help="Replace runs of other descriptions in the folder.")
]
Refinement = Annotated[
    float,
    typer.Option(
        metavar="RATIO", help="Set the ratio of the points per wavelength of finer runs, 1.1 to 4 (default: 1.4)."
    ),
]
SolverEntries = Annotated[
    list[str] | None,
    typer.Option(
        "--solver",
        metavar="METHOD.KEY=VALUE",
        help="Set an entry of solver for one method, for example spectral_element.points_per_wavelength=9; may be "
        "repeated.",
    ),
]
MeasureRuns = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure",
        help="Measure this machine for a few seconds to predict the run times (default: measure).",
    ),
]
ResultsJson = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the results to this JSON file.")
]

# bench
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="Select methods: finite_difference, spectral_element or discontinuous_galerkin; separated by commas "
        "or repeated (default: all methods that support the other options).",
    ),
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(
        "--size",
        metavar="N or NXxNYxNZ",
        help="Set the number of grid points, including absorbing layers: 200, 300x200x100; separated by commas or "
        "repeated (default: 200 on a CPU, 512 on a CUDA device). With --method spectral_element, the number of "
        "elements (default: 20 on a CPU, 77x77x76 on a CUDA device). With --method discontinuous_galerkin, the "
        "number of cubes of twelve tetrahedra (default: 16 on a CPU, 43x43x42 on a CUDA device; 14 and 42 with "
        "local time stepping). With --case default, the sides of the domain in km (default: 6x6x3 on a CPU, "
        "36x36x12 on a CUDA device).",
    ),
]
Orders = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        metavar="N",
        help="Set the order: 2, 4, 6 or 8 for finite differences, 2 to 7 for discontinuous Galerkin; separated by "
        "commas or repeated. Methods without this order are omitted, or rejected if selected by --method.",
    ),
]
Degrees = Annotated[
    list[str] | None,
    typer.Option(
        "--degree",
        metavar="N",
        help="Set the degree of spectral elements, 2 to 8; separated by commas or repeated.",
    ),
]
Precisions = Annotated[
    list[str] | None,
    typer.Option("--precision", metavar="NAME", help="Select single or double; separated by commas or repeated."),
]
Cases = Annotated[
    list[str] | None,
    typer.Option(
        "--case",
        metavar="NAME",
        help="Select cases: interior, full or run (finite differences); affine, deformed, attenuating, "
        "affine_attenuating, trilinear or fluid (spectral elements); global, local, attenuating or anisotropic "
        "(discontinuous Galerkin); separated by commas or repeated. Or default: entire runs of the first example "
        "of the README by all methods, elastic, with attenuation, and with outputs.",
    ),
]
Passes = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Set solver.passes: auto, one or two passes over the grid per step."),
]
Moduli = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Set compute.moduli: full, or compact for 16 bits per material value."),
]
Law = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Set solver.effective_medium: isotropic, transverse or orthorhombic."),
]
Attenuation = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Add attenuation, with solver.memory_variables: coarse or full (finite differences; default: none).",
    ),
]
LayerCells = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Set the thickness of absorbing layers in full and run (default: 10, on CUDA 16)."
    ),
]
ReceiverCount = Annotated[
    int | None,
    typer.Option(metavar="N", help="Set the number of receivers in full and run (default: 18, on CUDA 1000)."),
]
Deterministic = Annotated[
    bool,
    typer.Option("--deterministic", help="Set compute.deterministic: spectral elements without atomic additions."),
]
RecordsJson = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the benchmark records to a JSON file.")
]
