"""The status: what is going on at one moment, and nothing that is over."""

from __future__ import annotations

import asyncio

import pytest
from run_history import train

from potato_ray.errors import PotatoRayError
from potato_ray.registry import NewRun, State
from potato_ray.server.context import Phase
from potato_ray.server.overview import EXAMPLE, Overview

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))
ROUTE = "/admin/training/api/status"


def queue(served, slots: int = 1):
    registry = served.controller.registry
    rule = {"queue_max": 99, "allow_queue": True, "max_concurrent": slots}
    return served.controller.write(registry.create_run, NEW, **rule).run_id


def begin(served, slots: int = 1):
    run_id = queue(served, slots)
    assert served.controller.write(served.controller.registry.begin, run_id, None, slots) is not None
    return run_id


def move(served, run_id: str, *states: State, **fields):
    for state in states:
        last = fields if state is states[-1] else {}
        served.controller.write(served.controller.registry.transition, run_id, 1, state, **last)


def status(served):
    answer = served.client.get(ROUTE)
    assert answer.status_code == 200
    body = answer.json()
    assert Overview.model_validate(body, strict=True).model_dump() == body
    return body


def test_without_the_key_there_is_no_status(serve) -> None:
    assert serve().anonymous.get(ROUTE).status_code == 401


def test_a_project_without_runs_is_idle(serve) -> None:
    body = status(serve())
    assert body["state"] == "idle"
    assert body["runs"] == body["queue"] == body["errors"] == body["warnings"] == []
    assert body["run"] is body["last"] is body["skip_reason"] is body["writeback"] is None
    assert body["step"] == body["phase"] == ""
    assert body["metrics"] == {}


def test_a_project_without_a_registry_is_idle(serve) -> None:
    served = serve()
    object.__setattr__(served.reader, "path", served.config.registry_path.with_name("absent.sqlite"))
    assert status(served)["state"] == "idle"


def test_a_run_in_progress_gives_the_status_its_step_and_metrics(serve) -> None:
    served = serve()
    run_id = begin(served)
    said = [
        {"event": "status", "phase": "fitting", "step": "fitting trees"},
        {"event": "progress", "current": 3, "total": 10, "eta_s": 7.5},
        {"event": "metric", "name": "loss", "value": 0.5},
        {"event": "log", "level": "warning", "message": "Few items."},
    ]
    train(served, run_id)
    served.controller.write(served.controller.registry.record_events, run_id, 1, 0, said)
    body = status(served)
    assert (body["state"], body["phase"], body["step"]) == ("running", "fitting", "fitting trees")
    assert (body["current"], body["total"], body["eta_s"]) == (3.0, 10.0, 7.5)
    assert body["metrics"] == {"loss": 0.5}
    assert body["warnings"] == ["Few items."]
    assert [run["run_id"] for run in body["runs"]] == [body["run"]["run_id"]] == [run_id]
    assert 0 <= body["run"]["elapsed_s"] <= body["server_time"] - body["run"]["started_at"] + 60


def test_a_run_can_be_cancelled_until_its_worker_has_finished_and_once(serve) -> None:
    served = serve()
    run_id = begin(served)
    assert status(served)["run"]["can_cancel"]
    move(served, run_id, State.RUNNING, State.FINISHING)
    assert not status(served)["run"]["can_cancel"]
    assert served.client.post(f"/admin/training/api/runs/{run_id}/cancel").status_code == 409
    move(served, run_id, State.ERROR)
    other = begin(served)
    served.controller.write(served.controller.registry.request_cancel, other)
    assert not status(served)["run"]["can_cancel"]


def test_warnings_of_the_configuration_are_kept_apart(serve) -> None:
    served = serve()
    object.__setattr__(served.context, "findings", ("The time is long.",))
    body = status(served)
    assert (body["warnings"], body["findings"]) == ([], ["The time is long."])


def test_what_json_holds_comes_through_and_foreign_paths_do_not(serve) -> None:
    served = serve()
    run_id = begin(served)
    said = [
        {"event": "metric", "name": "a\ud800", "value": float("nan")},
        {"event": "log", "level": "warning", "message": "Read /home/ann/secret/model.bin slowly."},
    ]
    served.controller.write(served.controller.registry.record_events, run_id, 1, 0, said)
    body = served.client.get(ROUTE).json()
    assert body["metrics"] == {"a\ud800": None}
    assert body["warnings"] == body["run"]["warnings"] == ["Read …/model.bin slowly."]


def test_waiting_and_offered_runs_are_in_the_queue(serve) -> None:
    served = serve()
    begin(served)
    offered, waiting = queue(served), queue(served)
    served.controller.write(served.controller.registry.transition, offered, 0, State.OFFERED)
    body = status(served)
    assert [(run["run_id"], run["position"]) for run in body["queue"]] == [(offered, 0), (waiting, 1)]


def test_the_oldest_of_several_runs_gives_the_state(serve) -> None:
    served = serve(max_concurrent_runs=2)
    first, second = begin(served, 2), begin(served, 2)
    move(served, second, State.RUNNING)
    body = status(served)
    assert body["state"] == "building"
    assert [(run["run_id"], run["status"]) for run in body["runs"]] == [
        (first, "building"),
        (second, "running"),
    ]


def test_a_cancelled_run_is_cancelling_until_its_end(serve) -> None:
    served = serve()
    run_id = begin(served)
    asyncio.run(served.controller.command("cancel", run_id))
    assert status(served)["state"] == status(served)["run"]["status"] == "cancelling"


def test_a_run_that_has_ended_is_only_the_last_one(serve) -> None:
    served = serve()
    run_id = begin(served)
    move(served, run_id, State.RUNNING)
    served.controller.write(
        served.controller.registry.record_events, run_id, 1, 0, [{"event": "status", "step": "fitting"}]
    )
    move(served, run_id, State.EVALUATING, State.FINISHING)
    move(
        served,
        run_id,
        State.SUCCESS,
        scores={"headline": {"value": 0.9}},
        writeback={"n_read": 5, "run_id": run_id},
    )
    body = status(served)
    assert (body["state"], body["run"], body["runs"], body["step"]) == ("idle", None, [], "")
    assert body["last"]["run_id"] == run_id
    assert (body["last"]["status"], body["last"]["headline"]) == ("success", {"value": 0.9})
    assert body["writeback"] == {"n_read": 5, "run_id": run_id}


def test_the_last_run_is_the_one_that_ended_last_not_the_youngest(serve) -> None:
    served = serve(max_concurrent_runs=2)
    first, second = begin(served, 2), begin(served, 2)
    move(served, second, State.ERROR, error="It broke.", error_code="fit_failed")
    assert status(served)["last"]["error_code"] == "fit_failed"
    move(served, first, State.ERROR)
    assert status(served)["last"]["run_id"] == first


def test_the_write_back_of_a_run_before_does_not_stay(serve) -> None:
    served = serve()
    first = begin(served)
    move(
        served,
        first,
        State.RUNNING,
        State.EVALUATING,
        State.FINISHING,
        State.SUCCESS,
        writeback={"n_read": 5},
    )
    assert status(served)["writeback"]["run_id"] == first
    second = begin(served)
    move(served, second, State.ERROR)
    assert status(served)["writeback"] is None


def test_a_controller_that_is_not_ready_is_the_state(serve) -> None:
    served = serve()
    run_id = begin(served)
    served.controller.phase = Phase.RESTARTING
    body = status(served)
    assert body["state"] == body["controller"] == "restarting"
    assert body["run"]["run_id"] == run_id


def test_the_trouble_of_a_failed_controller_is_told(serve) -> None:
    served = serve()
    served.controller.phase = Phase.FAILED
    served.controller.trouble = PotatoRayError("Ray did not start.", code="ray_failed", next_step="Look.")
    body = status(served)
    assert body["state"] == "failed"
    assert body["errors"] == [
        {"error": "Ray did not start.", "error_code": "ray_failed", "evidence": "", "next_step": "Look."}
    ]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_controller_that_is_not_ready_is_told_in_a_sentence(serve, phase: Phase) -> None:
    served = serve()
    served.controller.phase = phase
    trouble = status(served)["trouble"]
    assert (trouble is None) == (phase is Phase.READY)
    assert phase is Phase.READY or trouble["title"]


def test_why_the_controller_has_failed_is_in_the_sentence(serve) -> None:
    served = serve()
    served.controller.phase = Phase.FAILED
    assert status(served)["trouble"]["title"] == "Runs cannot be started: Ray did not start."
    served.controller.trouble = PotatoRayError(
        "No memory.", evidence="3 MB are free.", next_step="Free some."
    )
    assert status(served)["trouble"] == {
        "level": "error",
        "title": "Runs cannot be started: No memory.",
        "text": "3 MB are free. Free some.",
    }


def test_the_example_of_the_document_fits(serve) -> None:
    operation = serve().app.openapi()["paths"][ROUTE]["get"]
    assert operation["operationId"] == "get_status"
    assert Overview.model_validate(EXAMPLE).model_dump() == EXAMPLE
