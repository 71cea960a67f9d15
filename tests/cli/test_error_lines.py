"""How an error looks in a terminal: every line indented below its first, none wider than the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from potato_ray.cli.output import error_lines
from potato_ray.config import load
from potato_ray.errors import ConfigInvalid, PotatoRayError


def config_invalid(folder: Path) -> ConfigInvalid:
    file = folder / "config.yaml"
    file.write_text("annotation_task_name: x\nmodel_training: {retane_runs: 3, queue_max: -1}\n", "utf-8")
    with pytest.raises(ConfigInvalid) as raised:
        load(file)
    return raised.value


def test_every_finding_of_a_configuration_is_indented(tmp_path: Path) -> None:
    first, *rest = error_lines(config_invalid(tmp_path))
    assert first.startswith("Error (config_invalid): ")
    assert len(rest) > 3
    assert all(line.startswith("  ") and line.strip() for line in rest)
    assert rest[-1] == "  Correct the file; `potato-ray validate` checks it again."


def test_an_error_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    error = config_invalid(tmp_path)
    lines = list(error_lines(error, 80))
    assert all(len(line) <= 80 or " " not in line.strip() for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(error_lines(error)).replace(" ", "")
    assert any(line.startswith("    ") for line in lines)


def test_a_path_is_never_broken() -> None:
    path = "/a/very-long/path" * 8
    error = PotatoRayError("It cannot be read.", evidence=f"It is {path} here.")
    assert path in [line.strip() for line in error_lines(error, 80)]


def test_an_error_without_evidence_has_no_empty_line() -> None:
    assert list(error_lines(PotatoRayError("No.", next_step="Go."))) == ["Error (error): No.", "  Go."]


def test_a_configuration_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        load(tmp_path / "absent.yaml")
    assert list(error_lines(raised.value)) == [
        f"Error (config_invalid): There is no file {tmp_path / 'absent.yaml'}.",
        "  Name the project's configuration file.",
    ]
