"""The command that submits runs to Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The simulation file (YAML).")],
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", help="Set the number of ranks of a run on CPUs (default: 1).")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus", metavar="N",
            help="Set the number of GPUs of a run, with one rank each.",
        ),
    ] = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option("--ranks-per-node", metavar="N", help="Set the ranks per node (default: all on one node)."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Set the cores per rank (default: the cores of this machine, shared; at most 4 with a GPU).",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME",
            help="Set the time limit, H:MM:SS (default: the predicted time plus a margin).",
        ),
    ] = None,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Select a partition of the cluster.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Select the account to charge.")] = None,
    launcher: Annotated[
        str, typer.Option(metavar="NAME", help="Select the MPI launcher: srun or mpiexec (default: srun).")
    ] = "srun",
    mpi: Annotated[
        str | None, typer.Option("--mpi", metavar="NAME", help="Set the option --mpi of srun: pmix, pmi2, cray_shasta.")
    ] = None,
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            metavar="LINE",
            help="Add a line to the script before the run, for example module load ...; may be repeated.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Select the precision: single or double.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Replace an entry of the file, for example solver.order=8; may be repeated.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Set the run folder (default: output.directory)."),
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the script without submitting it.")] = False,
) -> None:
    """Submit a run to Slurm, or an array of jobs for a survey; a job near its time limit is requeued and resumed."""
    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import located, read_simulation
    from lithowave.submit import JobRequest, make_script, submit_script

    options = {"compute.precision": precision, "output.directory": output}
    simulation, overrides = read_simulation(file, changes, options)
    request = JobRequest(
        ranks=ranks, gpus=gpus, ranks_per_node=ranks_per_node, threads=threads, time=time, partition=partition,
        account=account, launcher=launcher, mpi=mpi, before=tuple(before or ()),
    )  # fmt: skip
    arguments = [part for change in changes or [] for part in ("--set", change)]
    arguments += ["--precision", precision] if precision else []
    with located(file, overrides):
        script = make_script(simulation, file, request, arguments)
    print_text(script.rstrip() if only_print else submit_script(script))
