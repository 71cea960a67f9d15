"""What the commands say of runs that agents train."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from potato_ray.cli.predicting import run_predict
from potato_ray.cli.progress import step_line
from potato_ray.cli.running import left, run_training
from potato_ray.cli.runs import list_runs, show_run
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import NotFound, StartRefused
from potato_ray.lock import holder
from potato_ray.registry import NewRun, Registry, Run, State

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",), backend="workstation")


@pytest.fixture
def lab(project: ProjectConfig) -> ProjectConfig:
    """The project with an agent backend."""
    body = yaml.safe_load(project.path.read_text("utf-8"))
    body["model_training"]["backends"] = {"workstation": {"type": "agent"}}
    project.path.write_text(yaml.safe_dump(body), "utf-8")
    return load(project.path)


@pytest.fixture
def offered(lab: ProjectConfig) -> Run:
    return written(lab, lambda registry, run_id: registry.transition(run_id, 0, State.OFFERED))


def written(lab: ProjectConfig, do: Callable[[Registry, str], Run]) -> Run:
    with Registry(lab.registry_path, lab.annotation_task_name) as registry:
        made = registry.create_run(NEW, queue_max=9, allow_queue=True, max_concurrent=1)
        return do(registry, made.run_id)


def test_without_a_server_a_run_at_an_agent_is_refused_before_anything_is_made(lab: ProjectConfig) -> None:
    with pytest.raises(StartRefused) as refused:
        run_training(
            lab.path, "sklearn-text", ["sentiment"], [], "workstation", accept_licence=False, as_json=False
        )
    assert refused.value.code == "no_server"
    assert "potato-ray start" in refused.value.next_step
    assert not lab.registry_path.exists()
    assert holder(lab.state_dir) is None


def test_a_run_on_offer_waits_for_an_agent_in_lists_and_step_lines(
    lab: ProjectConfig, offered: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    list_runs(lab.path, 50, "", "", as_json=False)
    assert "no agent yet" in capsys.readouterr().out
    assert step_line(offered) == "waiting for an agent"


def test_a_run_on_offer_that_waits_for_a_slot_says_so(
    lab: ProjectConfig, offered: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "waiting for a free slot (max_concurrent_runs is 1)"
    with Registry(lab.registry_path, lab.annotation_task_name) as registry:
        registry.note_progress(offered.run_id, 0, words, 0, 0)
        assert step_line(registry.run(offered.run_id)) == words
    list_runs(lab.path, 50, "", "", as_json=False)
    assert "no free slot" in capsys.readouterr().out


def ended(registry: Registry, run_id: str) -> Run:
    """A success whose model stayed with its agent."""
    registry.begin(run_id, None, 1)
    for state in (State.RUNNING, State.EVALUATING, State.FINISHING):
        registry.transition(run_id, 1, state)
    return registry.transition(run_id, 1, State.SUCCESS, artifact_uri="ws1:/home/ada/jobs/r.1/artifacts")


def test_where_model_files_stayed_is_shown(lab: ProjectConfig, capsys: pytest.CaptureFixture[str]) -> None:
    show_run(written(lab, ended).run_id, lab.path, as_json=False)
    assert "model     its files stay on ws1: /home/ada/jobs/r.1/artifacts" in capsys.readouterr().out


def test_predicting_with_a_model_that_stayed_says_how_to_fetch_it(lab: ProjectConfig, tmp_path: Path) -> None:
    written(lab, ended)
    with pytest.raises(NotFound) as missing:
        run_predict("latest", tmp_path / "new.txt", lab.path, None)
    assert missing.value.evidence == "Its files stay on ws1: /home/ada/jobs/r.1/artifacts"
    assert "scp -r ws1:/home/ada/jobs/r.1 ." in missing.value.next_step


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.RUNNING, "goes on at its agent for 300 s and is ended then, unless the next server"),
        (State.OFFERED, "is left as it is (offered); the next server (potato-ray start) takes it up"),
    ],
)
def test_only_a_server_is_said_to_take_up_a_run_at_an_agent(
    lab: ProjectConfig, offered: Run, state: State, words: str
) -> None:
    assert words in left(lab, replace(offered, state=state))
