"""Starting, listing, looking at and cancelling runs over HTTP."""

from __future__ import annotations

from typing import Any

from potato_ray.registry.runs import Reservation

RUNS = "/admin/training/api/runs"
BODY = {"trainer": "sklearn-text", "schemas": ["sentiment"]}


def start(served: Any, key: str | None = None, **body: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    return served.client.post(RUNS, json={**BODY, **body}, headers=headers)


def begin(served: Any, run_id: str) -> None:
    served.controller.write(served.controller.registry.begin, run_id, Reservation("local"))


def test_a_start_that_need_not_wait_is_answered_with_200(serve) -> None:
    served = serve()
    answer = start(served)
    assert answer.status_code == 200
    run_id = answer.json()["run_id"]
    assert answer.json() == {"started": True, "run_id": run_id, "queued": False, "position": 0}
    assert answer.headers["location"] == f"{RUNS}/{run_id}"
    assert served.client.get(f"{RUNS}/{run_id}").json()["trigger"] == "api"


def test_a_start_that_waits_is_answered_with_202_and_its_position(serve) -> None:
    served = serve()
    start(served)
    answer = start(served)
    assert answer.status_code == 202
    assert answer.json()["queued"] is True
    assert answer.json()["position"] == 2
