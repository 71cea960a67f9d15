"""/health answers whoever asks."""

from __future__ import annotations

from potato_ray.server.context import Phase


def test_health_needs_no_key_and_says_how_far_the_controller_is(serve) -> None:
    served = serve()
    served.controller.phase = Phase.STARTING
    answer = served.anonymous.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "controller": "starting"}


def test_an_unknown_route_is_answered_as_a_problem(serve) -> None:
    answer = serve().client.get("/nowhere")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error_code"] == "not_found"
