"""The commands and their options in Markdown, read from the command line itself."""

from __future__ import annotations

from typing import Any


def commands_text() -> str:
    """A section for each command."""
    import typer

    from lithowave.cli import app

    group = typer.main.get_command(app)
    return "\n\n".join(_section(name, command) for name, command in group.commands.items())


def command_options() -> dict[str, set[str]]:
    """The options of every command."""
    import typer

    from lithowave.cli import app

    group = typer.main.get_command(app)
    return {
        name: {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, command in group.commands.items()
    }


def _section(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join(["lithowave", name, *(_placeholder(argument) for argument in arguments)])
    lines = [f"## lithowave {name}", "", f"    {usage} {'[OPTIONS]' if options else ''}".rstrip(), ""]
    lines += [" ".join((command.help or "").split()), ""]
    rows = [(f"`{_placeholder(argument)}`", argument.help) for argument in arguments]
    rows += [(f"`{_spelling(option)}`", option.help) for option in options]
    if rows:
        lines += ["| argument | meaning |", "| --- | --- |"]
        lines += [f"| {left} | {' '.join((right or '').split())} |" for left, right in rows]
    return "\n".join(lines)


def _placeholder(argument: Any) -> str:
    return argument.metavar or argument.name.upper()


def _spelling(option: Any) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return f"{names} {option.metavar}" if option.metavar else names
