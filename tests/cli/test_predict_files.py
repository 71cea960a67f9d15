"""Files of texts to predict on: blank lines, and errors that speak of that file, not of the data files."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from potato_ray.cli.predicting import RECORDS, _said_warnings, _said_when_empty, rows_of
from potato_ray.errors import NotFound, ProjectUnreadable
from potato_ray.project import records
from potato_ray.project.paths import ProjectPaths


def paths(folder: Path) -> ProjectPaths:
    return ProjectPaths(task_dir=folder, data_paths=(), output_dir=folder)


@pytest.mark.parametrize(
    ("text", "said"), [("\ngood\n  \t\r\nbad\n\n", "3 blank lines"), ("a\n\n", "1 blank line")]
)
def test_blank_lines_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "new.txt"
    file.write_text(text, "utf-8")
    rows = list(rows_of(file, paths(tmp_path)))
    lines = text.split("\n")
    assert [lines[int(row["instance_id"]) - 1] for row in rows] == [row["text"] for row in rows]
    assert capsys.readouterr().err == f"left out {said}\n"


def test_records_with_an_empty_text_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.csv"
    file.write_text('id,text,smiles\na,good,\nb,," "\nc,,CCO\nd,,\n', "utf-8")
    assert [row["instance_id"] for row in rows_of(file, paths(tmp_path))] == ["a"]
    assert "left out 3 records with an empty text" in capsys.readouterr().err
    assert [row["instance_id"] for row in rows_of(file, paths(tmp_path), ["smiles"])] == ["a", "c"]


def test_a_missing_text_is_an_empty_one_and_a_list_is_empty_with_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.jsonl"
    file.write_text('{"text": null}\n{"text": ["", " "]}\n{"text": ["", "a"]}\n', "utf-8")
    assert [row["instance_id"] for row in rows_of(file, paths(tmp_path))] == ["3"]
    assert "left out 2 records" in capsys.readouterr().err


def test_nothing_is_said_where_no_line_is_blank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.txt"
    file.write_text("good\nbad", "utf-8")
    assert len(list(rows_of(file, paths(tmp_path)))) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "content"), [("new.json", "[{"), ("new.jsonl", "3\n"), ("new.xlsx", "x"), ("new.csv", '"a')]
)
def test_errors_speak_of_the_file_that_was_named(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content, "utf-8")
    with pytest.raises(ProjectUnreadable, match=f"he file {name}") as unreadable:
        list(rows_of(file, paths(tmp_path)))
    assert "data" not in unreadable.value.message + unreadable.value.next_step
    assert unreadable.value.next_step
    assert unreadable.value.code == "input_unreadable"


def test_every_format_that_is_read_is_named_where_another_is_given(tmp_path: Path) -> None:
    assert set(RECORDS) == set(records._READERS)
    (tmp_path / "config.yaml").write_text("a: 1", "utf-8")
    with pytest.raises(ProjectUnreadable) as unreadable:
        list(rows_of(tmp_path / "config.yaml", paths(tmp_path)))
    assert [name for name in (".txt", "- for lines", *RECORDS) if name not in unreadable.value.evidence] == []


def test_a_file_without_texts_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.txt"
    file.write_text("", "utf-8")
    assert list(_said_when_empty(rows_of(file, paths(tmp_path)))) == []
    assert capsys.readouterr().err == "0 texts\n"


def test_a_pipe_of_the_shell_is_read_as_lines(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"good\nbad\n")
    os.close(writing)
    rows = list(rows_of(Path(f"/dev/fd/{reading}"), paths(tmp_path)))
    os.close(reading)
    assert [row["text"] for row in rows] == ["good", "bad"]


@pytest.mark.parametrize("name", ["texts", "texts.jsonl"])
def test_a_folder_is_said_to_be_no_file_of_texts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(NotFound, match=f"{name} is no file of texts"):
        list(rows_of(tmp_path / name, paths(tmp_path)))


@pytest.mark.filterwarnings("default")
def test_what_a_trainer_warns_of_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with _said_warnings():
        warnings.warn("1 of 3 items has\n no SMILES", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: 1 of 3 items has no SMILES\n"
