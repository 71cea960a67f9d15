"""Every scheme of the four Potato projects is trained, or the refusal says why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from independent_scores import independent_metrics
from whole_runs import MakeProject, OpenSession, ended, folder_of

from potato_ray.registry.states import State
from potato_ray.starting import StartRequest

pytestmark = pytest.mark.ray

PROJECTS = Path(__file__).parent.parent / "projects"
TRAINED = {
    "review-sentiment": ["sentiment"],
    "multi-scheme": ["tone", "topics", "quality", "trust", "strength", "stars", "channel"],
    "pairs": ["helpful", "margin"],
    "shapes": [],
}
REFUSED = {"multi-scheme": ["summary", "order", "evidence"], "shapes": ["objects"]}


def schemes_in(project: str) -> set[str]:
    body = yaml.safe_load((PROJECTS / project / "config.yaml").read_text("utf-8"))
    return {scheme["name"] for scheme in body["annotation_schemes"]}


def request(scheme: str) -> StartRequest:
    return StartRequest(trainer="sklearn-text", schemas=(scheme,), params={"min_instances": 2})


def test_no_scheme_of_the_projects_is_forgotten_here() -> None:
    for project in TRAINED:
        told = {*TRAINED[project], *REFUSED.get(project, ())}
        assert schemes_in(project) - told <= {"busy"}


@pytest.mark.parametrize("project", [name for name, schemes in TRAINED.items() if schemes])
def test_each_learnable_scheme_is_trained_and_scored_as_scikit_learn_scores_it(
    project: str, make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project(project, retain_runs=50, splits={"train": 0.5, "val": 0.3, "test": 0.2})
    session = open_session(config)
    for scheme in TRAINED[project]:
        run = ended(config, session.call("start", request(scheme))["run_id"])
        assert run.state == State.SUCCESS, (scheme, run.error, run.error_evidence)
        expected = independent_metrics(folder_of(config, run.run_id))
        assert expected
        reported = {name: run.scores["metrics"].get(name) for name in expected}
        assert reported == pytest.approx(expected, abs=1e-9, nan_ok=True), scheme


@pytest.mark.parametrize("project", REFUSED)
def test_each_other_scheme_says_why_it_has_no_trainer(
    project: str, make_project: MakeProject, open_session: OpenSession
) -> None:
    session = open_session(make_project(project))
    for scheme in REFUSED[project]:
        refused = session.call("start", request(scheme))
        assert refused["error_code"] == "untrainable_schema"
        assert scheme in refused["error"]
        assert refused["evidence"]
        assert refused["next_step"]


def test_a_scheme_on_pictures_says_that_it_needs_text(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project("shapes")
    run = ended(config, open_session(config).call("start", request("busy"))["run_id"])
    assert (run.state, run.error_code) == (State.ERROR, "validation_failed")
    assert "picture" in run.error.lower() or "image" in run.error.lower()
