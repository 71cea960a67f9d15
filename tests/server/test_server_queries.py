"""Query parameters that a route does not take are refused, as unknown members of a body are."""

from __future__ import annotations

import pytest

API = "/admin/training/api"


@pytest.mark.parametrize(
    ("address", "evidence", "next_step"),
    [
        ("runs?state=success", "limit, status and trainer", "state: did you mean status?"),
        ("runs?limit=1&x=", "limit, status and trainer", "/openapi.json describes every route."),
        ("runs?Limit=1", "limit, status and trainer", "Limit: did you mean limit?"),
        ("runs/nope/events?afte=3", "after and limit", "afte: did you mean after?"),
        ("runs/nope/log?tail=1", "none", "/openapi.json describes every route."),
        ("status?run=1", "none", "/openapi.json describes every route."),
        ("trainers?kind=x", "none", "/openapi.json describes every route."),
        ("stream?runid=1", "after and run_id", "runid: did you mean run_id?"),
    ],
)
def test_a_query_parameter_that_is_not_known_is_refused(
    serve, address: str, evidence: str, next_step: str
) -> None:
    answer = serve().client.get(f"{API}/{address}")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "malformed_request")
    assert answer.json()["evidence"] == f"It takes {evidence}."
    assert answer.json()["next_step"] == next_step


def test_a_start_with_a_query_parameter_is_refused_and_starts_nothing(serve) -> None:
    served = serve()
    body = {"trainer": "sklearn-text", "schemas": "sentiment"}
    answer = served.client.post(f"{API}/runs?queue=false", json=body)
    assert (answer.status_code, answer.json()["started"]) == (400, False)
    assert answer.json()["error"] == "This route takes no query parameter queue."
    assert served.reader.runs() == []


def test_known_parameters_and_pages_with_others_are_answered(serve) -> None:
    served = serve()
    assert served.client.get(f"{API}/runs?limit=1&status=success&trainer=x").status_code == 200
    assert served.client.get("/admin/training?from=mail").status_code == 200
