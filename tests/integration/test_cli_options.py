"""Options that several commands share, templates, dry runs and shell completion."""

from __future__ import annotations

import pytest
import typer
import yaml

import lithowave as lw
from lithowave.cli import TEMPLATES, app, template
from lithowave.faults import planar_rupture
from lithowave.readers import write_srf
from small_run import lithowave, settings, write_small
from small_survey import write_survey

COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_short_help(command) -> None:
    assert lithowave(command, "-h") == lithowave(command, "--help")


def test_a_dry_run_is_a_check(tmp_path) -> None:
    file = write_small(tmp_path)
    options = ("-o", tmp_path / "out", *settings("solver.spacing=80"))
    output = lithowave("run", file, "--dry-run", *options)
    checked = lithowave("check", file, *options)
    assert not (tmp_path / "out").exists()
    assert "this run would work here" in output

    def facts(text):
        """Lines that depend neither on the speed of the machine nor on the kernels that were compiled before."""
        words = ("time ", "memory", "disk", "compiling kernels")
        return [line for line in text.splitlines() if not any(word in line for word in words)]

    assert facts(output) == facts(checked) and len(facts(output)) > 5
    survey = write_survey(tmp_path)
    assert "3 shots" in lithowave("run", survey, "--dry-run", "-o", tmp_path / "survey")
    lithowave("run", survey, "--dry-run", "--shot", 2, "-o", tmp_path / "survey")
    assert "add --shot N" in lithowave("run", survey, "--profile", "-o", tmp_path / "survey", status=2)
    assert not (tmp_path / "survey").exists()


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_valid_without_warnings(tmp_path, monkeypatch, name) -> None:
    monkeypatch.chdir(tmp_path)
    lithowave("init", "--template", name, *([] if name == "complete" else ["experiment.yaml"]))
    file = tmp_path / ("simulation.yaml" if name == "complete" else "experiment.yaml")
    text = file.read_text(encoding="utf-8")
    assert text == template(name)
    content = yaml.safe_load(text)
    if name == "finite_fault":
        assert content["sources"] == [{"file": "fault.srf"}]
        rupture = planar_rupture(
            strike=30, dip=60, rake=90, length=15e3, width=10e3, top_depth=1e3, mw=6.0, subfaults=(6, 4), vs=3200.0,
            density=2600.0, longitude=-117.766, latitude=33.949, rise_time=2.0,
        )  # fmt: skip
        write_srf(rupture, tmp_path / "fault.srf")
    simulation = lw.Simulation.from_file(file)
    assert name == "finite_fault" or simulation.warnings() == []  # those of the rupture
    assert len(simulation.point_sources()) == (24 if name == "finite_fault" else 1)
    assert (simulation.survey is not None) == (name == "survey")
    assert (simulation.domain.chunk is not None) == (name == "globe")
    assert (simulation.domain.crs is not None) == (name in ("earthquake", "finite_fault"))


def test_an_unknown_template_is_refused_with_the_available_ones(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = lithowave("init", "--template", "moon", status=2)
    allowed = "complete, earthquake, finite_fault, survey, globe"
    assert f"--template: 'moon' is not a valid choice; allowed: {allowed}" in output
    assert "did you mean" in lithowave("init", "--template", "earthqake", status=2)
    assert list(tmp_path.iterdir()) == []


def test_the_shell_completes_commands_and_options() -> None:
    from typer.testing import CliRunner

    assert "--install-completion" in lithowave("--help") and "--show-completion" in lithowave("--help")
    for words, expected in (("lithowave re", {"report", "restart"}), ("lithowave plot --f", {"--format"})):
        environment = {"_LITHOWAVE_COMPLETE": "complete_bash", "COMP_WORDS": words,
                       "COMP_CWORD": str(len(words.split()) - 1)}  # fmt: skip
        result = CliRunner().invoke(app, [], prog_name="lithowave", env=environment)
        assert set(result.stdout.split()) == expected
