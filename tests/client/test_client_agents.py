"""Agent backends through the client: a token, and who is there."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from answering import Replies, problem
from client_time import async_client_of, client_of

from potato_ray.client import AgentToken, Conflict, RunRecord

ISSUED = {"backend": "under the desk", "token": "prt_x"}


def test_a_token_is_asked_for_with_the_key_at_the_agents_own_routes() -> None:
    replies = Replies(httpx.Response(200, json=ISSUED))
    with client_of(replies) as client:
        issued = client.register_backend("under the desk")
    assert (issued.backend, issued.token) == ("under the desk", "prt_x")
    (request,) = replies.requests
    assert (request.method, request.url.raw_path) == (
        "POST",
        b"/api/training/backends/under%20the%20desk/register",
    )
    assert request.headers["x-api-key"]


def test_the_async_client_asks_for_the_same() -> None:
    async def ask() -> AgentToken:
        async with async_client_of(Replies(httpx.Response(200, json=ISSUED))) as client:
            return await client.register_backend("under the desk")

    assert asyncio.run(ask()).token == "prt_x"


def test_a_token_whose_answer_was_lost_is_asked_for_again() -> None:
    replies = Replies(httpx.ReadError("cut"), httpx.Response(200, json=ISSUED))
    with client_of(replies) as client:
        assert client.register_backend("under the desk").token == "prt_x"
    assert len(replies.requests) == 2


def test_a_backend_of_another_type_is_a_conflict() -> None:
    with (
        client_of(Replies(problem(409, "not_an_agent_backend"))) as client,
        pytest.raises(Conflict) as refused,
    ):
        client.register_backend("local")
    assert refused.value.code == "not_an_agent_backend"


def test_a_backend_tells_its_agents() -> None:
    body = {"name": "lab", "type": "agent", "token": "issued", "agents": [{"host": "ws1", "present": True}]}
    with client_of(Replies(httpx.Response(200, json={"backends": [body, {"name": "local"}]}))) as client:
        lab, local = client.backends()
    assert (lab.token, [agent["host"] for agent in lab.agents]) == ("issued", ["ws1"])
    assert (local.token, local.agents) == (None, ())


def test_a_run_on_offer_waits_for_an_agent() -> None:
    assert RunRecord("r", status="queued", state="offered").step_line == "waiting for an agent"
    assert RunRecord("r", status="cancelling", state="offered").step_line == "cancelling"
    full = "waiting for a free slot (max_concurrent_runs is 1)"
    assert RunRecord("r", status="queued", state="offered", step=full).step_line == full
