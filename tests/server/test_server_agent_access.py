"""Who gets in as an agent: the bearer of the backend's present token, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agent_calls import AgentCalls
from agent_jobs import RESULT_EVENT
from agent_link import AGENT_BACKENDS, NAME, AgentLink
from fastapi.testclient import TestClient

from potato_ray.agent_tokens import digest_of, new_token
from potato_ray.config import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.registry.agents import RunToken, TokenRecord
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State
from potato_ray.server import agent_access
from potato_ray.server.agent_access import FRESH_S, Admitted, Tokens, of_backends, of_runs
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext, Unavailable

KEY = "the-admin-key-of-the-tests"
PYZ = "/api/training/agent.pyz"
REGISTER = f"/api/training/backends/{NAME}/register"


class Served:
    def __init__(self, config: ProjectConfig) -> None:
        self.link = AgentLink(config)
        reader = RegistryReader(config.registry_path)
        self.app = create_app(ServerContext(config, reader, self.link, admin_key=KEY))
        self.client = TestClient(self.app, raise_server_exceptions=False, client=("10.1.2.3", 5))
        self.calls = AgentCalls(self.client, self.link.token())

    def take(self) -> AgentCalls:
        self.link.offer()
        assert self.calls.claim().status_code == 200
        self.link.move(self.calls.run_id, State.RUNNING)
        return self.calls


@pytest.fixture
def serve_agents(make_config: Callable[..., ProjectConfig]) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def serve(**top: Any) -> Served:
        made.append(Served(make_config(top=top, backends=AGENT_BACKENDS, max_concurrent_runs=9)))
        return made[-1]

    yield serve
    for each in made:
        each.link.close()


@pytest.fixture
def served(serve_agents) -> Served:
    return serve_agents()


def fetch(served: Served, authorization: str | None) -> Any:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    return served.client.get(PYZ, headers=headers)


def test_every_bad_token_is_answered_with_the_very_same(served) -> None:
    calls = served.take()
    old, other = calls.token, served.link.token("laptop")
    calls.token = served.link.token()
    served.app.state.agent_door.keeper.tokens.forget()
    sent = (None, "", "Bearer", "Bearer ", "Basic eDp5", f"Bearer {old}", f"Bearer {new_token()}", "Bearer ä")
    answers = [fetch(served, each) for each in sent]
    answers.append(served.client.get(PYZ, headers=[("authorization", f"Bearer {calls.token}")] * 2))
    calls.token = other
    answers.append(calls.progress(0, [RESULT_EVENT]))
    assert {each.status_code for each in answers} == {401}
    assert len({each.content for each in answers}) == 1
    assert {each.headers["www-authenticate"] for each in answers} == {'Bearer realm="potato_ray"'}


@pytest.mark.parametrize("what", ["claim", "bundle", "progress", "predictions", "result"])
def test_no_route_lets_anybody_in_without_the_token(served, what: str) -> None:
    calls = served.take()
    before = sorted(each.name for each in served.link.folder(calls.run_id).path.rglob("*"))
    other = [] if what == "claim" else [served.link.token("laptop")]
    for token in (new_token(), KEY, *other):
        calls.token = token
        assert getattr(calls, what)().status_code == 401
    assert sorted(each.name for each in served.link.folder(calls.run_id).path.rglob("*")) == before


def test_the_admin_key_is_no_token_and_a_token_is_no_admin_key(served) -> None:
    assert fetch(served, f"Bearer {KEY}").status_code == 401
    runs = "/admin/training/api/runs"
    assert served.client.get(runs, headers={"X-API-Key": served.calls.token}).status_code == 403
    bearing = {"Authorization": f"Bearer {served.calls.token}"}
    assert served.client.get(runs, headers=bearing).status_code == 401
    assert served.client.post(REGISTER, headers=bearing).status_code == 401


def test_debug_gives_agents_nothing(serve_agents) -> None:
    served = serve_agents(debug=True)
    here = TestClient(served.app, base_url="http://127.0.0.1", client=("127.0.0.1", 5))
    assert here.get("/admin/training/api/runs").status_code == 200
    assert here.get(PYZ).status_code == 401
    assert here.post("/api/training/jobs/claim", headers={"Potato-Ray-Protocol": "1"}).status_code == 401


def test_a_scheme_in_another_case_is_the_same_scheme(served) -> None:
    assert fetch(served, f"bearer {served.calls.token}").status_code == 200


def test_register_shows_the_token_once_and_ends_the_one_before(served) -> None:
    assert served.client.post(REGISTER).status_code == 401
    answer = served.client.post(REGISTER, headers={"X-API-Key": KEY})
    assert (answer.status_code, answer.json()["backend"]) == (200, NAME)
    assert answer.headers["cache-control"] == "no-store"
    assert fetch(served, f"Bearer {served.calls.token}").status_code == 401
    assert fetch(served, f"Bearer {answer.json()['token']}").status_code == 200


@pytest.mark.parametrize(
    ("name", "status", "code"), [("local", 409, "not_an_agent_backend"), ("nowhere", 404, "not_found")]
)
def test_only_agent_backends_have_a_token(served, name: str, status: int, code: str) -> None:
    answer = served.client.post(f"/api/training/backends/{name}/register", headers={"X-API-Key": KEY})
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)


def test_a_page_of_another_site_registers_nothing(served) -> None:
    headers = {"X-API-Key": KEY, "Origin": "https://elsewhere.example"}
    assert served.client.post(REGISTER, headers=headers).status_code == 403
    assert "register_backend" not in served.link.commands


@pytest.mark.parametrize("version", ["", "2", "1, 1", "one"])
def test_another_version_of_the_protocol_is_refused_with_both_named(served, version: str) -> None:
    headers = {**served.calls.headers, "Potato-Ray-Protocol": version}
    answer = served.client.post("/api/training/jobs/claim", headers=headers, json={})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "unknown_protocol")
    assert "version 1" in answer.json()["evidence"]
    assert (version or "nothing") in answer.json()["evidence"]
    assert answer.headers["potato-ray-protocol"] == "1"


def test_wrong_tokens_make_nobody_wait_but_themselves(served) -> None:
    answers = [fetch(served, f"Bearer {new_token()}") for _ in range(agent_access.WRONG_TOKENS + 1)]
    assert [each.status_code for each in answers[-2:]] == [401, 429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert fetch(served, f"Bearer {served.calls.token}").status_code == 200
    assert fetch(served, None).status_code == 401


def test_a_disabled_project_lets_no_agent_in(make_config) -> None:
    config = make_config(enabled=False, backends=AGENT_BACKENDS)
    link = AgentLink(config)
    app = create_app(ServerContext(config, RegistryReader(config.registry_path), link, admin_key=KEY))
    answer = TestClient(app).get(PYZ)
    assert (answer.status_code, answer.json()["error_code"]) == (404, "training_disabled")
    link.close()


class Shelf:
    """Tokens that a test sets; `looks` counts how often they were read."""

    def __init__(self, **tokens: str) -> None:
        self.tokens = tokens
        self.looks = 0
        self.failure: Exception | None = None

    def token_of(self, backend: str) -> TokenRecord | None:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        token = self.tokens.get(backend)
        return None if token is None else TokenRecord(backend, digest_of(token), 0.0)


def test_tokens_are_read_once_a_while_whoever_asks() -> None:
    async def scenario() -> None:
        now, shelf = [100.0], Shelf(a="one", b="two")
        tokens = Tokens(of_backends(("a", "b", "c"), shelf), clock=lambda: now[0])
        found = [await tokens.whose(each) for each in ("one", "two", "three", "")]
        assert (found, shelf.looks) == ([Admitted("a"), Admitted("b"), None, None], 3)
        shelf.tokens["a"] = "new"
        assert await tokens.whose("one") == Admitted("a")
        now[0] += FRESH_S
        assert (await tokens.whose("one"), await tokens.whose("new")) == (None, Admitted("a"))

    asyncio.run(scenario())


def test_tokens_that_cannot_be_read_again_go_on() -> None:
    async def scenario() -> None:
        shelf = Shelf(a="one")
        tokens = Tokens(of_backends(("a",), shelf))
        shelf.failure = Conflict("locked", code="registry_locked")
        with pytest.raises(Unavailable):
            await tokens.whose("one")
        shelf.failure = None
        assert await tokens.whose("one") == Admitted("a")
        tokens.forget()
        shelf.failure = Conflict("locked", code="registry_locked")
        assert await tokens.whose("one") == Admitted("a")

    asyncio.run(scenario())


def test_a_token_that_a_run_has_just_got_is_known_at_once() -> None:
    class Runs:
        tokens: list[RunToken] = []  # noqa: RUF012 - the test changes it

        def run_tokens(self) -> list[RunToken]:
            return self.tokens

    async def scenario() -> None:
        shelf = Runs()
        tokens = Tokens(of_runs(shelf), look_again=True)
        assert await tokens.whose("one") is None
        shelf.tokens = [RunToken("run-1", "gpu", digest_of("one"))]
        assert await tokens.whose("one") == Admitted("gpu", "run-1")

    asyncio.run(scenario())
