"""The command line ``lithowave``: arguments and printing, nothing else."""

from lithowave.cli.app import app, main

__all__ = ["app", "main"]
