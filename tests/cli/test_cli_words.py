"""What the commands read and print: parameters, texts to predict on, logs, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from potato_ray.cli import completion
from potato_ray.cli.output import duration, program, when
from potato_ray.cli.predicting import _opened, rows_of, run_predict
from potato_ray.cli.progress import step_line
from potato_ray.cli.summary import detail_lines, end_lines, score_line
from potato_ray.config import ProjectConfig
from potato_ray.errors import NotFound, ProjectUnreadable
from potato_ray.project.paths import ProjectPaths
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.run_log import log_lines


def a_run(**fields: object) -> Run:
    values = {"run_id": "r", "project": "p", "trainer": "t", "schemas": ("s",), "kinds": ("nominal",)}
    values |= {"params": {}, "backend": "local", "state": State.RUNNING, "attempt": 1}
    values |= {"trigger": "cli", "created_at": 0.0, **fields}
    return Run(**values)  # type: ignore[arg-type]


def paths(folder: Path, text_key: str = "text") -> ProjectPaths:
    return ProjectPaths(task_dir=folder, data_paths=(), output_dir=folder, text_key=text_key)


def test_a_text_file_has_one_text_a_line(tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    file.write_text("good\nbad, really\n", "utf-8")
    rows = list(rows_of(file, paths(tmp_path)))
    assert rows == [
        {"instance_id": "1", "text": "good"},
        {"instance_id": "2", "text": "bad, really"},
    ]


def test_a_byte_order_mark_is_no_part_of_the_first_text(tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    file.write_bytes(b"\xef\xbb\xbfgood\r\nbad\r\n")
    assert [row["text"] for row in rows_of(file, paths(tmp_path))] == ["good", "bad"]


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    file.write_bytes(b"good\ncaf\xe9\n")
    with pytest.raises(ProjectUnreadable, match=r"Line 2 of new\.txt is not UTF-8") as unreadable:
        list(rows_of(file, paths(tmp_path)))
    assert unreadable.value.evidence == "Byte 4 of the line is 0xe9."


def test_output_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with _opened(output) as stream:
        stream.write("a line\n")
        assert not output.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def write_and_fail(output: Path) -> None:
    with _opened(output) as stream:
        stream.write("a line\n")
        raise ProjectUnreadable("Line 2 is not UTF-8.")


def test_a_failed_output_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProjectUnreadable):
        write_and_fail(tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_output_into_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no folder"):
        write_and_fail(tmp_path / "absent" / "out.jsonl")


def test_completion_offers_no_runs_of_a_registry_that_cannot_be_read(project: ProjectConfig) -> None:
    config = project.task_dir / "config.yaml"
    assert completion.runs(config, "") == ["latest"]
    project.registry_path.write_bytes(b"no database at all" * 100)
    assert completion.runs(config, "") == []


def test_records_keep_their_ids_and_use_the_projects_text_key(tmp_path: Path) -> None:
    file = tmp_path / "new.jsonl"
    file.write_text(json.dumps({"id": "a", "review": "good"}) + "\n" + json.dumps({"review": "bad"}) + "\n")
    rows = list(rows_of(file, paths(tmp_path, "review")))
    assert [(row["instance_id"], row["text"]) for row in rows] == [("a", "good"), ("2", "bad")]


def test_a_pair_of_texts_is_given_as_a_pair(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps([{"id": "a", "text": ["one", "two"]}]))
    (row,) = rows_of(file, paths(tmp_path))
    assert row["texts"] == ["one", "two"]
    assert "A. one" in row["text"]


def test_a_record_without_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("id,body\n1,hello\n")
    with pytest.raises(ProjectUnreadable, match=r"Record 1 of new\.csv has no text") as unreadable:
        list(rows_of(file, paths(tmp_path)))
    assert "body" in unreadable.value.evidence


@pytest.mark.parametrize("name", ["absent.txt", "absent.csv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound, match=name):
        list(rows_of(tmp_path / name, paths(tmp_path)))


def test_the_score_line_says_what_the_score_is_compared_with() -> None:
    headline = {"split": "val", "metric": "macro_f1", "value": 0.8, "low": 0.7, "high": 0.9}
    headline |= {"n_items": 28, "baseline": 0.4, "previous": 0.75, "lower_is_better": False}
    line = score_line(a_run(state=State.SUCCESS, scores={"headline": headline}))
    assert line == (
        "val macro_f1 0.800 (95 % interval 0.700 to 0.900, 28 items) · baseline 0.400 · previous run 0.750"
    )


def test_the_score_line_says_why_there_is_no_interval() -> None:
    headline = {"split": "test", "metric": "mae", "value": 0.0, "low": None, "high": None, "n_items": 1}
    headline |= {"lower_is_better": True, "interval_note": "fewer than 10 items"}
    line = score_line(a_run(state=State.SUCCESS, scores={"headline": headline}))
    assert line == "test mae 0.000 (1 item, no 95 % interval: fewer than 10 items) · lower is better"


def test_a_successful_run_without_a_score_says_so() -> None:
    empty = a_run(state=State.SUCCESS, scores={"headline": None}, n_val=0, n_test=0)
    assert score_line(empty) == "not scored (no labelled item is in val or test)"
    assert (
        score_line(a_run(state=State.SUCCESS, scores={"note": "not scored: x"}, n_val=3)) == "not scored: x"
    )


def test_step_lines_say_what_a_run_does() -> None:
    assert step_line(a_run(state=State.QUEUED, position=2)) == "waiting #2"
    assert step_line(a_run(step="fitting")) == "running: fitting"
    assert step_line(a_run(step="fitting", cancel_requested_at=1.0)) == "cancelling"


def test_a_log_has_one_line_for_each_event_that_says_something() -> None:
    events = [
        {"event": "status", "t": 0.0, "phase": "fitting", "step": "fitting the model"},
        {"event": "progress", "t": 1.0, "current": 1, "total": 2},
        {"event": "log", "t": 2.0, "level": "warning", "message": "half of the texts are empty"},
        {"event": "metric", "t": 3.0, "name": "train_loss", "value": 0.5, "step": 7},
        {"event": "error", "t": 4.0, "code": "fit_failed", "message": "It failed.", "next_step": "Look."},
    ]
    assert list(log_lines(events)) == [
        "1970-01-01T00:00:00Z fitting the model",
        "1970-01-01T00:00:02Z WARNING: half of the texts are empty",
        "1970-01-01T00:00:03Z train_loss = 0.5 (step 7)",
        "1970-01-01T00:00:04Z ERROR (fit_failed): It failed. Look.",
    ]


def test_times_and_durations_are_readable() -> None:
    assert when(0.0) == "1970-01-01 00:00:00 UTC"
    assert [duration(s) for s in (0.25, 75.0, 7260.0)] == ["0.2 s", "1 min 15 s", "2 h 01 min"]


def test_a_withdrawn_run_says_since_when() -> None:
    report = {"summary": "Published 4 of 4 predictions", "withdrawn_at": 1_795_955_098.0}
    lines = list(end_lines(a_run(state=State.SUCCESS, writeback=report), Path()))
    assert "Published 4 of 4 predictions" in lines
    assert "withdrawn at 2026-11-29 12:24:58 UTC: none of them is shown or stored any more" in lines


def test_a_run_that_was_cancelled_while_it_waited_says_when() -> None:
    at = 1_795_955_098.0
    run = a_run(state=State.CANCELLED, cancel_requested_at=at, finished_at=at)
    lines = list(detail_lines(run, Path()))
    assert "cancel    asked for at 2026-11-29 12:24:58 UTC" in lines
    assert "ended     2026-11-29 12:24:58 UTC, before its worker started" in lines


@pytest.mark.parametrize("state", [State.CANCELLED, State.ERROR, State.INTERRUPTED])
def test_a_run_that_was_stopped_says_where_what_its_trainer_had_saved_is(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run(state=state, artifact_dir="out/runs/r/artifacts")
    assert list(end_lines(run, tmp_path)) == [f"run r: {state}"]
    (tmp_path / run.artifact_dir / "partial").mkdir(parents=True)
    assert "What its trainer had saved is in out/runs/r/artifacts" in detail_lines(run, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("n_train", 146.0, "146"),
        ("train_best_epoch", 12.0, "12"),
        ("train_epochs", 2.5, "2.5000"),
        ("train_loss", 1.0, "1.0000"),
        ("val_loss", None, "–"),
        ("n_train", None, "–"),
    ],
)
def test_whole_counts_are_shown_without_decimals(name: str, value: float | None, shown: str) -> None:
    lines = list(detail_lines(a_run(state=State.SUCCESS, metrics={name: value}), Path()))
    assert f"  {name:32} {shown}" in lines


def test_predicting_with_a_pruned_run_names_its_folder(project: ProjectConfig) -> None:
    folder = project.training_dir / "runs" / "20260301T093000-1f2e3d"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "run.log").touch()
    with pytest.raises(NotFound, match="was pruned; its folder is still on disk") as gone:
        run_predict(folder.name, Path("new.txt"), project.path, None)
    assert "Look at its run.log; model_training" in gone.value.next_step
    (folder / "artifacts" / "model_card.json").write_text("{}", "utf-8")
    with pytest.raises(NotFound, match="was pruned") as gone:
        run_predict(folder.name, Path("new.txt"), project.path, None)
    assert f"potato-ray predict {folder} " in gone.value.next_step


def test_predicting_with_a_run_that_never_was_says_that(project: ProjectConfig) -> None:
    with pytest.raises(NotFound, match="No such run: nope"):
        run_predict("nope", Path("new.txt"), project.path, None)


@pytest.mark.parametrize(
    ("called", "on_path", "named"),
    [
        ("bin/potato-ray", True, "potato-ray"),
        ("bin/potato-ray", False, "bin/potato-ray"),
        ("a b/potato-ray", False, "'a b/potato-ray'"),
        ("bin/pytest", False, "potato-ray"),
    ],
)
def test_a_line_to_be_typed_names_a_program_that_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str, on_path: bool, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("bin", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "potato-ray").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / ("bin" if on_path else "other")))
    monkeypatch.setattr("sys.argv", [called])
    assert program() == named
