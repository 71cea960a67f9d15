"""Tokens of agent backends, and the agents that were seen with them."""

from __future__ import annotations

import sqlite3

import pytest

from potato_ray.errors import Conflict
from potato_ray.registry import State
from potato_ray.registry.agents import KEPT_AGENTS, KEPT_FOR_S, AgentSeen, TokenRecord
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.schema import MIGRATIONS, migrate


def agent(agent_id, last_seen, **more):
    return AgentSeen("ws", agent_id, "workstation", last_seen=last_seen, **more)


def test_a_backend_has_the_token_that_it_was_given_last(registry, reader, clock):
    registry.put_token("ws", "a" * 64)
    registry.put_token("other", "b" * 64)
    clock.now += 60.0
    registry.put_token("ws", "c" * 64)
    assert reader.token_of("ws") == TokenRecord("ws", "c" * 64, clock.now)
    assert (reader.backend_of_token("a" * 64), reader.backend_of_token("c" * 64)) == (None, "ws")
    assert reader.backend_of_token("b" * 64) == "other"


def test_a_run_has_its_tokens_until_it_ends(registry, reader, run_in):
    run, other = run_in(State.RUNNING), run_in(State.RUNNING)
    for token in ("a" * 64, "b" * 64):
        registry.put_run_token(run.run_id, run.attempt, token)
    registry.put_run_token(other.run_id, other.attempt, "c" * 64)
    assert {(each.run_id, each.token_sha256[0]) for each in reader.run_tokens()} == {
        (run.run_id, "a"),
        (run.run_id, "b"),
        (other.run_id, "c"),
    }
    assert reader.backend_of_token("a" * 64) is None
    registry.transition(run.run_id, run.attempt, State.ERROR)
    assert [each.run_id for each in reader.run_tokens()] == [other.run_id]
    with pytest.raises(Conflict):
        registry.put_run_token(run.run_id, run.attempt, "d" * 64)


def test_agents_are_listed_as_they_were_last_heard_of(registry, reader, clock):
    first = agent("1", clock.now, python="3.8.18", gpus=({"uuid": "GPU-1"},), workdir="/w")
    registry.put_agents_seen([first, agent("2", clock.now + 1)])
    registry.put_agents_seen([agent("1", clock.now + 2, run_id="r")])
    newest, second = reader.agents("ws")
    assert (newest.agent_id, newest.run_id, newest.first_seen) == ("1", "r", clock.now)
    assert (second.agent_id, second.last_seen) == ("2", clock.now + 1)
    assert reader.agents("other") == []


def test_an_agent_that_has_left_is_back_once_it_asks_again(registry, reader, clock):
    registry.put_agents_seen([agent("1", clock.now, has_left=True)])
    assert [each.has_left for each in reader.agents("ws")] == [True]
    registry.put_agents_seen([agent("1", clock.now + 1)])
    assert [each.has_left for each in reader.agents("ws")] == [False]


def test_a_token_knows_when_it_was_last_used_and_not_what_was_before_it(registry, reader, clock):
    registry.put_token("ws", "a" * 64)
    registry.put_agents_seen([agent("1", clock.now + 5)])
    assert reader.token_of("ws").last_seen == clock.now + 5
    clock.now += 60.0
    registry.put_token("ws", "b" * 64)
    registry.put_agents_seen([agent("1", clock.now - 10)])
    assert reader.token_of("ws").last_seen is None


def test_of_many_agents_the_last_seen_are_kept(registry, reader, clock):
    registry.put_agents_seen([agent(str(n), clock.now + n * KEPT_FOR_S) for n in range(KEPT_AGENTS + 5)])
    kept = reader.agents("ws")
    assert (len(kept), kept[0].agent_id, kept[-1].agent_id) == (KEPT_AGENTS, str(KEPT_AGENTS + 4), "5")


def test_agents_that_poll_at_present_are_all_known(registry, reader, clock):
    registry.put_agents_seen([agent(str(n), clock.now + n / 10) for n in range(KEPT_AGENTS + 300)])
    assert len(reader.agents("ws")) == KEPT_AGENTS + 300


def test_what_is_on_offer_is_listed_by_backend_the_oldest_first(registry, reader, run_in):
    runs = [run_in(State.OFFERED) for _ in range(2)]
    run_in(State.RUNNING)
    assert [run.run_id for run in reader.offered("local")] == [run.run_id for run in runs]
    assert reader.offered("ws") == []


def test_a_file_from_before_there_were_agents_has_none(path, clock):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    migrate(connection, clock, MIGRATIONS[:4])
    connection.close()
    old = RegistryReader(path)
    assert (old.token_of("ws"), old.backend_of_token("a"), old.agents("ws")) == (None, None, [])
