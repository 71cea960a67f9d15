"""The second listener: agents at a unix socket of mode 0600, and nothing else."""

from __future__ import annotations

import http.client
import json
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_calls import AgentCalls
from agent_jobs import LEASE, claimed, handed_over
from agent_link import AGENT_BACKENDS, NAME, AgentLink
from fastapi.testclient import TestClient

from potato_ray.agent_place import place_of
from potato_ray.config import ProjectConfig
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State
from potato_ray.server.agent_app import agent_app
from potato_ray.server.agent_socket import LONGEST_PATH, AgentListening, AgentSocket, is_wanted
from potato_ray.server.context import ServerContext

KEY = "the-admin-key-of-the-tests"


@pytest.fixture
def context(make_config: Callable[..., ProjectConfig]) -> Iterator[ServerContext]:
    config = make_config(top={"debug": True}, backends=AGENT_BACKENDS, max_concurrent_runs=9)
    link = AgentLink(config)
    yield ServerContext(config, RegistryReader(config.registry_path), link, admin_key=KEY)
    link.close()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(self._path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_socket_is_for_its_owner_alone(tmp_path) -> None:
    bound = AgentSocket(tmp_path / "state")
    assert (mode(bound.path), mode(bound.path.parent)) == (0o600, 0o700)
    bound.close()
    assert not bound.path.exists()


def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path) -> None:
    AgentSocket(tmp_path).listener.close()
    bound = AgentSocket(tmp_path)
    assert bound.path.is_socket()
    assert place_of(tmp_path) == bound.path
    bound.close()


def test_a_path_that_is_too_long_is_exchanged_for_a_private_one(tmp_path) -> None:
    deep = tmp_path / ("x" * 100)
    bound = AgentSocket(deep)
    assert len(str(bound.path)) <= LONGEST_PATH
    assert place_of(deep) == bound.path
    assert (mode(bound.path), mode(bound.path.parent)) == (0o600, 0o700)
    bound.close()
    assert not bound.path.parent.exists()


def test_a_request_through_the_socket_is_that_of_an_agent_and_never_of_an_admin(context) -> None:
    listening = AgentListening(context, ended=lambda: None)
    listening.start()
    try:
        connection = UnixConnection(listening.path)
        for method, path in [
            ("GET", "/admin/training"),
            ("GET", "/admin/training/api/runs"),
            ("POST", f"/api/training/backends/{NAME}/register"),
            ("GET", "/openapi.json"),
            ("GET", "/health"),
        ]:
            connection.request(method, path, headers={"X-API-Key": KEY})
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["error_code"]) == (404, "not_found"), path
        connection.request("GET", "/api/training/agent.pyz", headers={"X-API-Key": KEY})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 401
        connection.close()
    finally:
        listening.stop()
    assert not listening.path.exists()


@pytest.mark.parametrize(("type_", "wanted"), [("agent", True), ("ssh", True), ("ray", False), (None, False)])
def test_only_projects_with_agents_have_the_socket(make_config, type_: str | None, wanted: bool) -> None:
    settings: dict[str, Any] = {"type": type_, **({"host": "h"} if type_ == "ssh" else {})}
    config = make_config(backends={"there": settings} if type_ else {})
    assert is_wanted(config.model_training) is wanted


def test_an_agent_at_the_socket_knows_no_run_but_its_own(context) -> None:
    link: Any = context.controller
    first, second = link.offer(), link.offer()
    for run_id in (first, second):
        link.write(link.registry.begin, run_id, None, 9)
        claimed(link.folder(run_id).path, lease=LEASE if run_id == second else "f" * 32)
        handed_over(link.folder(run_id).path, context.config.state_dir, run_id, NAME)
        link.move(run_id, State.RUNNING)
    on_offer = link.offer()
    with TestClient(agent_app(context)) as client:
        calls = AgentCalls(client, link.run_token(second))
        assert calls.claim().json()["run_id"] == second
        assert calls.progress().status_code == 200
        calls.run_id, calls.lease = first, "f" * 32
        assert calls.progress().json()["error_code"] == "unknown_run"
        assert calls.claim(wait_s=0).status_code == 204
        calls.run_id = on_offer
        assert calls.progress().json()["error_code"] == "unknown_run"
    assert "claim" not in link.commands
    assert RegistryReader(context.config.registry_path).agents(NAME) == []


def test_only_a_token_of_a_run_that_goes_on_opens_the_socket(context) -> None:
    link: Any = context.controller
    run_id = link.offer()
    link.write(link.registry.begin, run_id, None, 9)
    token = link.run_token(run_id)
    with TestClient(agent_app(context)) as client:
        assert AgentCalls(client, link.token()).claim(wait_s=0).status_code == 401
        assert AgentCalls(client, token).claim(wait_s=0).status_code == 204
        link.move(run_id, State.CANCELLED)
        client.app.state.agent_door.keeper.tokens.forget()
        assert AgentCalls(client, token).claim(wait_s=0).status_code == 401
    assert RegistryReader(context.config.registry_path).run_tokens() == []
