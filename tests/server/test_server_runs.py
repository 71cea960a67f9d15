"""Starting, listing, looking at and cancelling runs over HTTP."""

from __future__ import annotations

import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from run_history import HEADLINE, METRICS, RUNS, begin, fail, folder_of, move, succeed

from potato_ray.errors import Conflict, ProjectUnwritable
from potato_ray.registry.states import State
from potato_ray.server.context import Phase, Unavailable
from potato_ray.trainers import registry as trainers
from potato_ray.trainers.base import Licence
from potato_ray.trainers.sklearn_text import SklearnText

BODY = {"trainer": "sklearn-text", "schemas": ["sentiment"]}


def start(served: Any, key: str | None = None, **body: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    return served.client.post(RUNS, json={**BODY, **body}, headers=headers)


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == answer.json()["status"] == status
    return answer.json()


# Starting


def test_a_start_that_need_not_wait_is_answered_with_200(serve) -> None:
    served = serve()
    answer = start(served)
    assert answer.status_code == 200
    run_id = answer.json()["run_id"]
    assert answer.json() == {"started": True, "run_id": run_id, "queued": False, "position": 0}
    assert served.client.get(answer.headers["location"]).json()["trigger"] == "api"


def test_a_start_that_waits_is_answered_with_202_and_its_position(serve) -> None:
    served = serve()
    begin(served, start(served).json()["run_id"])
    answers = [start(served), start(served)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert [answer.json()["position"] for answer in answers] == [1, 2]
    assert [answer.json()["queued"] for answer in answers] == [True, True]
    assert answers[1].headers["location"] == f"{RUNS}/{answers[1].json()['run_id']}"


def test_of_twenty_simultaneous_starts_one_begins_and_as_many_wait_as_may(serve) -> None:
    served = serve(queue_max=10)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda number: start(served, key=f"k-{number}"), range(20)))
    by_status = Counter(answer.status_code for answer in answers)
    assert by_status == {200: 1, 202: 10, 429: 9}
    places = sorted(answer.json()["position"] for answer in answers if answer.status_code < 300)
    assert places == list(range(11))
    again = [start(served, key=f"k-{number}").json().get("run_id") for number in range(20)]
    assert again == [answer.json().get("run_id") for answer in answers]


def test_positions_shift_as_runs_end(serve) -> None:
    served = serve()
    first, second, third = (start(served).json()["run_id"] for _ in range(3))
    begin(served, first)
    assert served.client.post(f"{RUNS}/{second}/cancel").json()["cancelled"] is True
    assert served.client.get(f"{RUNS}/{third}").json()["position"] == 1


def test_one_scheme_may_be_named_without_a_list_and_a_default_may_be_null(serve) -> None:
    served = serve()
    answer = start(served, schemas="sentiment", backend=None)
    assert served.client.get(f"{RUNS}/{answer.json()['run_id']}").json()["schemas"] == ["sentiment"]


def test_a_full_queue_is_answered_with_429_and_when_to_come_back(serve) -> None:
    served = serve(queue_max=1)
    begin(served, start(served).json()["run_id"])
    start(served)
    answer = start(served)
    said = problem(answer, 429)
    assert (said["started"], said["error_code"]) == (False, "queue_full")
    assert int(answer.headers["retry-after"]) > 0


def test_a_start_that_must_not_wait_is_answered_with_409_while_a_run_is_under_way(serve) -> None:
    served = serve()
    start(served)
    said = problem(start(served, queue=False), 409)
    assert (said["started"], said["error_code"]) == (False, "busy")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"trainer": "sklearn-txt"}, 400, "unknown_trainer"),
        ({"trainer": None}, 400, "unknown_trainer"),
        ({"schemas": ["sentment"]}, 400, "unknown_schema"),
        ({"schemas": []}, 400, "unknown_schema"),
        ({"schemas": ["sentiment", ""]}, 400, "unknown_schema"),
        ({"params": {"min_instance": 3}}, 400, "bad_params"),
        ({"params": {"min_instances": "3"}}, 400, "bad_params"),
        ({"backend": "moon"}, 409, "unknown_backend"),
        ({"queue": "no"}, 400, "malformed_request"),
        ({"schemas": [3]}, 400, "malformed_request"),
        ({"params": []}, 400, "malformed_request"),
    ],
)
def test_what_cannot_run_is_refused_at_once(serve, body: dict[str, Any], status: int, code: str) -> None:
    served = serve()
    said = problem(start(served, **body), status)
    assert (said["started"], said["error_code"]) == (False, code)
    assert said["error"]
    assert said["next_step"]
    assert served.reader.runs() == []


def test_an_unknown_key_of_the_body_is_refused_with_what_was_meant(serve) -> None:
    said = problem(start(serve(), accept_license=True), 400)
    assert said["error"] == "A start does not take accept_license."
    assert said["next_step"] == "accept_license: did you mean accept_licence?"


@pytest.mark.parametrize(
    "body",
    [
        {"a." * 30_000: 1},
        {f"unknown_{number}": number for number in range(5_000)},
        {"schemas": [1] * 5_000},
        {"params": {}, "queue": 3, "x" * 100_000: 1},
    ],
)
def test_a_body_of_many_faults_is_refused_in_few_words(serve, body: dict[str, Any]) -> None:
    answer = start(serve(), **body)
    assert problem(answer, 400)["error_code"] == "malformed_request"
    assert len(answer.content) < 2_000


def test_unknown_keys_of_a_body_are_named_and_the_others_counted(serve) -> None:
    said = problem(start(serve(), **{f"no{number}": 1 for number in range(12)}), 400)
    named = ", ".join(f"no{number}" for number in range(10))
    assert said["error"] == f"A start does not take {named} and 2 more."


def test_a_licence_that_nobody_confirmed_is_asked_for(serve, monkeypatch) -> None:
    licence = Licence("AGPL-3.0", "https://www.gnu.org/licenses/agpl-3.0", needs_confirmation=True)
    monkeypatch.setattr(SklearnText, "licence", licence)
    served = serve()
    said = problem(start(served), 400)
    assert (said["error_code"], said["needs_licence_ack"]) == ("licence_not_confirmed", True)
    assert start(served, accept_licence=True).status_code == 200
    assert trainers.offered_trainer("sklearn-text") is SklearnText


def test_a_repeat_with_the_same_key_answers_the_first_run(serve) -> None:
    served = serve()
    first = start(served, key="k-1", params={"min_instances": 5})
    again = start(served, key="k-1", params={"min_instances": 5})
    assert again.json()["run_id"] == first.json()["run_id"]
    assert len(served.reader.runs()) == 1


@pytest.mark.parametrize("other", [{"params": {"min_instances": 6}}, {"schemas": ["sentiment", "sentiment"]}])
def test_a_key_that_stands_for_another_start_is_refused(serve, other: dict[str, Any]) -> None:
    served = serve()
    start(served, key="k-1")
    said = problem(start(served, key="k-1", **other), 409)
    assert (said["started"], said["error_code"]) == (False, "idempotency_key_reused")
    assert len(served.reader.runs()) == 1


def test_a_repeat_answers_the_first_run_though_another_backend_is_the_default_now(serve) -> None:
    served = serve()
    first = start(served, key="k-1").json()
    changed = served.config.model_training.model_copy(update={"backend": "cluster"})
    later = type(served)(served.config.model_copy(update={"model_training": changed}))
    again = start(later, key="k-1")
    other = problem(start(later, key="k-1", backend="cluster"), 409)
    later.controller.close()
    assert again.json()["run_id"] == first["run_id"]
    assert other["error_code"] == "idempotency_key_reused"


def test_a_start_that_was_made_is_answered_whatever_keeps_the_registry_from_being_read(
    serve, monkeypatch
) -> None:
    served = serve()

    def locked(run_id: str) -> Any:
        raise Conflict("project.sqlite is locked by another program.", code="registry_locked")

    monkeypatch.setattr(served.reader, "run", locked)
    answers = [start(served, key="k-1") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (Unavailable("It is starting."), False),
        (Conflict("It is locked.", code="registry_locked"), False),
        (ProjectUnwritable.full("No space."), False),
        (Unavailable("It was not answered.", code="controller_restarting"), None),
        (RuntimeError("a fault of ours"), None),
    ],
)
def test_only_a_start_that_was_surely_not_made_says_so(serve, monkeypatch, trouble, told) -> None:
    served = serve()

    async def failing(*_: Any) -> Any:
        raise trouble

    monkeypatch.setattr(served.controller, "command", failing)
    answer = start(served)
    assert answer.status_code in (500, 503, 507)
    assert answer.json().get("started") is told


@pytest.mark.parametrize("key", ["", "x" * 256, "a b"])
def test_a_key_that_is_empty_or_too_long_is_refused(serve, key: str) -> None:
    served = serve()
    said = problem(start(served, key=key), 400)
    assert said["error_code"] == "malformed_request"
    assert served.reader.runs() == []


def test_a_start_while_the_controller_is_starting_is_answered_with_503(serve) -> None:
    served = serve()
    served.controller.phase = Phase.STARTING
    answer = start(served)
    assert problem(answer, 503)["error_code"] == "controller_unavailable"
    assert "retry-after" in answer.headers


# Listing and looking


def test_runs_are_listed_newest_first_and_by_status_and_trainer(serve) -> None:
    served = serve()
    won, lost = succeed(served).run_id, fail(served).run_id

    def listed(query: str) -> list[str]:
        return [run["run_id"] for run in served.client.get(f"{RUNS}?{query}").json()["runs"]]

    assert listed("") == [lost, won]
    assert listed("limit=1") == [lost]
    assert listed("status=success") == [won]
    assert listed("trainer=setfit") == []


def test_runs_that_potato_made_are_listed_too(serve) -> None:
    served = serve()
    values = ("theirs", "p", "sklearn-text", "local", '["sentiment"]', '["nominal"]', "success", "page", 5.0)
    with closing(sqlite3.connect(served.config.registry_path)) as file, file:
        file.execute(
            "INSERT INTO training_runs (run_id, project, trainer, backend, schema_names, kinds, status,"
            " trigger, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
    (run,) = served.client.get(RUNS).json()["runs"]
    assert (run["run_id"], run["made_by"], run["status"]) == ("theirs", "potato", "success")
    assert served.client.get(f"{RUNS}/theirs").json()["schemas"] == ["sentiment"]
    assert served.client.get(f"{RUNS}/theirs/log").text == ""
    assert served.client.get(f"{RUNS}/theirs/artifacts").json()["artifacts"] == []
    cancelled = served.client.post(f"{RUNS}/theirs/cancel")
    withdrawn = served.client.delete(f"{RUNS}/theirs/predictions")
    for answer in (cancelled, withdrawn):
        said = problem(answer, 409)
        assert (said["error_code"], said["error"]) == ("wrong_state", "Run theirs was made by Potato itself.")


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "status=offered", "status="])
def test_a_list_that_cannot_be_is_refused(serve, query: str) -> None:
    assert problem(serve().client.get(f"{RUNS}?{query}"), 400)["error_code"] == "malformed_request"


def test_a_run_is_answered_with_scores_and_what_it_is_compared_with(serve) -> None:
    served = serve()
    before, run = succeed(served), succeed(served)
    body = served.client.get(f"{RUNS}/{run.run_id}").json()
    assert (body["status"], body["headline"], body["scores"]["metrics"]) == ("success", HEADLINE, METRICS)
    assert body["previous"] == {"run_id": before.run_id, "metrics": METRICS}
    assert served.client.get(f"{RUNS}/{before.run_id}").json()["previous"] is None


def test_paths_outside_the_project_are_hidden_in_errors_and_warnings(serve) -> None:
    served = serve()
    run = fail(served, "open /usr/lib/secret/model.bin failed", warnings=["see /usr/lib/secret/x.log"])
    body = served.client.get(f"{RUNS}/{run.run_id}").text
    assert "model.bin" in body
    assert "/usr/lib" not in body


def test_an_unknown_run_is_answered_with_404(serve) -> None:
    served = serve()
    for run_id in ("nothing", "a b", "%2e%2e", "..%00", "x" * 300):
        answer = served.client.get(f"{RUNS}/{run_id}")
        assert answer.status_code in (400, 404)
        assert answer.json()["evidence"] == "" or answer.status_code == 400


def test_the_404_of_a_forgotten_run_names_its_folder(serve) -> None:
    served = serve()
    folder_of(served, "20260101T000000-abcdef").mkdir(parents=True)
    said = problem(served.client.get(f"{RUNS}/20260101T000000-abcdef"), 404)
    assert said["error_code"] == "unknown_run"
    assert said["evidence"].endswith("annotation_output/training/runs/20260101T000000-abcdef.")


# Cancelling


def test_a_running_run_is_asked_to_stop(serve) -> None:
    served = serve()
    run_id = start(served).json()["run_id"]
    begin(served, run_id)
    move(served, run_id, State.RUNNING)
    answer = served.client.post(f"{RUNS}/{run_id}/cancel")
    assert answer.json() == {"run_id": run_id, "state": "running", "cancelled": False}
    assert served.client.get(f"{RUNS}/{run_id}").json()["status"] == "cancelling"


def test_what_has_ended_or_never_was_cannot_be_cancelled(serve) -> None:
    served = serve()
    run = succeed(served)
    assert problem(served.client.post(f"{RUNS}/{run.run_id}/cancel"), 409)["error_code"] == "already_ended"
    assert problem(served.client.post(f"{RUNS}/nothing/cancel"), 404)["error_code"] == "unknown_run"
