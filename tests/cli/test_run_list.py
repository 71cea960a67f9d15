"""The list of runs fits 100 columns; a run whose record is gone is still found on the disk."""

from __future__ import annotations

import json

import pytest

from potato_ray.cli.runs import list_runs, show_log, show_run
from potato_ray.config import ProjectConfig
from potato_ray.errors import NotFound
from potato_ray.registry import NewRun, Registry, State

HEADLINE = {"split": "val", "metric": "quadratic_kappa", "value": 0.7964, "n_items": 28}
LONG = NewRun("hf-text-classification", ("a-scheme-with-a-long-name", "another"), ("nominal",))


def add_run(config: ProjectConfig, new: NewRun, state: State, **fields: object) -> str:
    with Registry(config.registry_path, config.annotation_task_name) as registry:
        run_id = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=9).run_id
        registry.begin(run_id, None, 9)
        for step in (State.RUNNING, State.FINISHING):
            registry.transition(run_id, 1, step)
        registry.transition(run_id, 1, state, **fields)
    return run_id


def test_the_list_of_runs_fits_100_columns(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = add_run(project, LONG, State.SUCCESS, n_train=12345, n_val=2345, scores={"headline": HEADLINE})
    add_run(project, LONG, State.ERROR, error_code="invalid_when_dequeued", error="No.")
    assert list_runs(project.path, 50, "", "", as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2].startswith(run_id)
    assert "…" in lines[2]
    assert "val quadratic_kappa 0.796" in lines[2]
    assert "invalid_when_dequeued" in lines[1]


def test_short_names_are_not_cut(project: ProjectConfig, capsys: pytest.CaptureFixture[str]) -> None:
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",))
    scores = {"headline": {**HEADLINE, "metric": "macro_f1"}}
    add_run(project, new, State.SUCCESS, n_train=105, n_val=22, n_test=23, scores=scores)
    list_runs(project.path, 50, "", "", as_json=False)
    row = capsys.readouterr().out.splitlines()[1]
    assert "…" not in row
    assert "sklearn-text  sentiment  105/22/23  val macro_f1 0.796  local" in row


def test_an_error_says_that_lower_is_better(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {"headline": {**HEADLINE, "metric": "mae", "lower_is_better": True}}
    add_run(project, LONG, State.SUCCESS, n_train=12345, n_val=2345, scores=scores)
    list_runs(project.path, 50, "", "", as_json=False)
    row = capsys.readouterr().out.splitlines()[1]
    assert "val mae 0.796, lower is better" in row
    assert len(row) <= 100


def test_the_json_form_holds_everything(project: ProjectConfig, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(project, LONG, State.ERROR, error_code="fit_failed", error="No.")
    list_runs(project.path, 50, "", "", as_json=True)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["error_code"], run["schemas"]) == ("fit_failed", list(LONG.schemas))
    assert run["created_at"]


def test_of_a_run_that_never_had_a_worker_the_end_alone_is_told(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run(project, LONG, State.ERROR, error_code="slurm_failed", error="SLURM refused the job.")
    show_run("latest", project.path, as_json=False)
    shown = capsys.readouterr().out
    assert ", before its worker started" in shown
    assert "took " not in shown


def begin_run(config: ProjectConfig, step: str) -> None:
    """A run in progress that says what it does."""
    with Registry(config.registry_path, config.annotation_task_name) as registry:
        run_id = registry.create_run(LONG, queue_max=9, allow_queue=True, max_concurrent=9).run_id
        registry.begin(run_id, None, 9)
        registry.transition(run_id, 1, State.RUNNING, step=step)


def test_a_run_in_progress_shows_its_step(project: ProjectConfig, capsys: pytest.CaptureFixture[str]) -> None:
    begin_run(project, "waiting for SLURM job 4242: PENDING (Priority)")
    add_run(project, LONG, State.SUCCESS, step="writing predictions back")
    list_runs(project.path, 50, "", "", as_json=False)
    _, ended, running, step = capsys.readouterr().out.splitlines()
    assert ("success" in ended, "running" in running) == (True, True)
    assert step == "  waiting for SLURM job 4242: PENDING (Priority)"
    show_run(running.split()[0], project.path, as_json=False)
    assert "step: waiting for SLURM job 4242: PENDING (Priority)\n" in capsys.readouterr().out
    show_run("latest", project.path, as_json=False)
    assert "step: " not in capsys.readouterr().out


def test_a_long_step_is_one_line_of_100_columns_too(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_run(project, "many words \n" * 20)
    list_runs(project.path, 50, "", "", as_json=False)
    *_, step = capsys.readouterr().out.splitlines()
    assert (len(step), step[-1]) == (100, "…")


@pytest.mark.parametrize("look", [show_run, show_log])
def test_a_pruned_run_is_found_on_the_disk(project: ProjectConfig, look: object) -> None:
    folder = project.training_dir / "runs" / "20261129T164100-abcdef"
    folder.mkdir(parents=True)
    for name in ("scores.json", "run.log"):
        (folder / name).touch()
    with pytest.raises(NotFound, match="its folder is still on disk") as pruned:
        look(folder.name, project.path, as_json=False)  # type: ignore[operator]
    assert str(folder) in pruned.value.evidence
    assert "scores.json and run.log" in pruned.value.next_step


@pytest.mark.parametrize("name", ["20261129T164100-abcdef", "..", "../runs", "/tmp"])
def test_a_run_that_never_was_is_unknown(project: ProjectConfig, name: str) -> None:
    (project.training_dir / "runs").mkdir(parents=True)
    with pytest.raises(NotFound, match="No such run"):
        show_run(name, project.path, as_json=False)


def test_the_list_names_the_scheme_that_was_trained(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run(project, NewRun("sklearn-text", ("tone", "trust"), ("nominal",)), State.SUCCESS)
    list_runs(project.path, 50, "", "", as_json=False)
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert "tone" in row
    assert "trust" not in row


def test_a_run_is_found_by_the_last_six_characters_of_its_id(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = add_run(project, LONG, State.SUCCESS)
    add_run(project, LONG, State.ERROR)
    assert show_run(run_id[-6:], project.path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == run_id
    with pytest.raises(NotFound, match="No such run") as missing:
        show_run(run_id[-5:], project.path, as_json=False)
    assert "potato-ray training runs" in missing.value.next_step


def test_an_end_that_two_runs_share_names_both(project: ProjectConfig) -> None:
    with Registry(project.registry_path, project.annotation_task_name) as registry:
        ids = [
            registry.create_run(LONG, queue_max=9, allow_queue=True, max_concurrent=9).run_id
            for _ in range(2)
        ]
        for number, run_id in enumerate(ids):
            sql = "UPDATE potato_ray_runs SET run_id = ? WHERE run_id = ?"
            registry._connection.execute(sql, (f"{number}-abcdef", run_id))
    with pytest.raises(NotFound, match="2 runs have an id that ends in abcdef") as several:
        show_run("abcdef", project.path, as_json=False)
    assert "1-abcdef, 0-abcdef" in several.value.evidence


def test_the_files_of_a_run_are_named_from_the_current_folder(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(project, LONG, State.SUCCESS, artifact_dir="annotation_output/training/runs/r/artifacts")
    monkeypatch.chdir(project.task_dir.parent)
    show_run("latest", project.path, as_json=False)
    assert "files     project/annotation_output/training/runs/r/artifacts" in capsys.readouterr().out
