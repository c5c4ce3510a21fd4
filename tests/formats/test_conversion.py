"""Conversion of models and meshes: round trips, and refusals of what the target cannot express."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.model_files import write_emc
from test_sw4_models import rfile, sfile
from test_text_models import write as write_text
from typer.testing import CliRunner

from jittered_boxes import jittered
from lithowave import InputError
from lithowave.cli import app
from lithowave.mesh import read_tetrahedral_mesh, tetrahedral_box, write_gmsh
from lithowave.output import convert_file
from lithowave.readers import read_model


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
@pytest.mark.parametrize("kind", ["emc", "text"])
def test_converted_models_are_the_same(tmp_path, kind, suffix):
    if kind == "emc":
        pytest.importorskip("netCDF4")
        source = write_emc(tmp_path / "emc.nc", extra=("vsv",))
    else:
        source = write_text(tmp_path / "m.txt")
    remarks = convert_file(source, tmp_path / f"new{suffix}")
    assert remarks == (["not converted: vsv"] if kind == "emc" else [])
    (before,), (after,) = read_model(source), read_model(tmp_path / f"new{suffix}")
    assert before.frame == after.frame and not after.unused
    for name in ("x", "y", "z", "vp", "vs", "rho"):
        assert np.array_equal(getattr(before, name), getattr(after, name)), name
        assert getattr(before, name).dtype == getattr(after, name).dtype


def test_meshes_are_written_for_gmsh(tmp_path):
    mesh = replace(jittered(tetrahedral_box((0, 300), (0, 200), (-200, 0), 100.0), 0.1), groups=("rock",)).local()
    source = write_gmsh(tmp_path / "a.msh", mesh)
    assert convert_file(source, tmp_path / "b.msh") == []
    assert (tmp_path / "b.msh").read_bytes() == source.read_bytes()
    assert read_tetrahedral_mesh(tmp_path / "b.msh").groups == ("rock",)


def test_lossy_conversions_are_refused(tmp_path):
    with pytest.raises(InputError, match="the model has 3 blocks of different grids.*use the file as material.file"):
        convert_file(rfile(tmp_path / "m.rfile"), tmp_path / "new.h5")
    with pytest.raises(InputError, match="the model has 3 blocks"):
        convert_file(sfile(tmp_path / "m.sfile"), tmp_path / "new.h5")
    assert not (tmp_path / "new.h5").exists()


def test_the_command(tmp_path):
    source, target = write_text(tmp_path / "m.txt"), tmp_path / "new.h5"
    run = CliRunner()
    assert run.invoke(app, ["convert", str(source), str(target)]).output == f"written: {target}\n"
    again = run.invoke(app, ["convert", str(source), str(target)])
    assert again.exit_code == 2 and "exists already" in again.output
    assert run.invoke(app, ["convert", str(source), str(target), "--overwrite"]).exit_code == 0
    for arguments, pattern in (
        ((source, tmp_path / "new.xyz"), "extension .xyz is not known"),
        ((tmp_path / "none", target), "does not exist"),
        ((target, target, "--overwrite"), "is the source itself"),
        ((source, tmp_path / "new.msh"), "the file extension .txt is not known"),
    ):
        result = run.invoke(app, ["convert", *map(str, arguments)])
        assert result.exit_code == 2 and pattern in result.output.replace("\n", " ")
