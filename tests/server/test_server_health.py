"""/health answers whoever asks."""

from __future__ import annotations

import asyncio
import threading

import anyio.to_thread
import httpx

from potato_ray.server.context import Phase


def test_health_needs_no_key_and_says_how_far_the_controller_is(serve) -> None:
    served = serve()
    served.controller.phase = Phase.STARTING
    answer = served.anonymous.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "controller": "starting"}


def test_health_answers_while_slow_reads_hold_every_thread(serve) -> None:
    over = threading.Event()

    async def asked_meanwhile() -> int:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        slow = asyncio.create_task(anyio.to_thread.run_sync(over.wait, 30.0))
        while not anyio.to_thread.current_default_thread_limiter().borrowed_tokens:
            await asyncio.sleep(0)
        transport = httpx.ASGITransport(serve().app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            try:
                return (await asyncio.wait_for(client.get("/health"), 10)).status_code
            finally:
                over.set()
                await slow

    assert asyncio.run(asked_meanwhile()) == 200


def test_an_unknown_route_is_answered_as_a_problem(serve) -> None:
    answer = serve().client.get("/nowhere")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error_code"] == "not_found"
