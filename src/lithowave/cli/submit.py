"""Submitting runs to Slurm on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The simulation file (YAML).")],
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", help="Processes of a run on CPUs; default: 1.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", help="GPUs of a run, each with a rank.")] = None,
    ranks_per_node: Annotated[
        int | None, typer.Option("--ranks-per-node", metavar="N", help="Default: all on one node.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cores for each rank; default: those of this machine, shared; with a GPU 4."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="TIME", help="As Slurm has it, H:MM:SS; default: predicted, and a margin."),
    ] = None,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Partition of the cluster.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Account that is charged.")] = None,
    launcher: Annotated[
        str, typer.Option(metavar="NAME", help="What starts several ranks: srun or mpiexec.")
    ] = "srun",
    mpi: Annotated[
        str | None, typer.Option("--mpi", metavar="NAME", help="For srun --mpi: pmix, pmi2, cray_shasta.")
    ] = None,
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before", metavar="LINE", help="A line of the script before the run: module load ...; may be repeated."
        ),
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="NAME", help="single or double.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Replace an entry of the file: solver.order=8; may be repeated."
        ),
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="DIR", help="The run folder.")] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the script; nothing is submitted.")] = False,
) -> None:
    """Submit a run to Slurm, or an array of jobs for a survey; a job goes on anew when its time is over."""
    from lithowave.cli.printing import tell
    from lithowave.cli.reading import located, read_simulation
    from lithowave.submit import Request, make_script, submit_script

    options = {"compute.precision": precision, "output.directory": output}
    simulation, overrides = read_simulation(file, changes, options)
    request = Request(
        ranks=ranks, gpus=gpus, ranks_per_node=ranks_per_node, threads=threads, time=time, partition=partition,
        account=account, launcher=launcher, mpi=mpi, before=tuple(before or ()),
    )  # fmt: skip
    arguments = [part for change in changes or [] for part in ("--set", change)]
    arguments += ["--precision", precision] if precision else []
    with located(file, overrides):
        script = make_script(simulation, file, request, arguments)
    tell(script.rstrip() if only_print else submit_script(script))
