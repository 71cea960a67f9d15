"""Runs on offer to agents: one claim gets one run, the same lease the same, and no offer waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from controlled import controlled, offered

from potato_ray.actors import controller as controllers
from potato_ray.actors.agent_desk import AgentDesk
from potato_ray.actors.controller import RunController
from potato_ray.actors.way import RunWay
from potato_ray.agent_tokens import digest_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict, NotFound, ProjectUnwritable
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.registry import Run, State

AGENT = {"id": "a1", "host": "workstation", "python": "3.8.18"}


@pytest.fixture
def config(agent_config: ProjectConfig) -> ProjectConfig:
    return agent_config


@pytest.fixture(autouse=True)
def ways_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has begun goes on until the controller lets go of it."""

    async def walk(way: RunWay) -> None:
        await way._let_go.wait()

    monkeypatch.setattr(RunWay, "walk", walk)
    monkeypatch.setattr(controllers, "PLACE_AGAIN_AFTER_S", 0.01)


def claim_of(controller: RunController, run_id: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((controller.run_folder(run_id) / "claim.json").read_text())
    return body


def test_a_run_for_an_agent_is_offered_and_holds_no_slot(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> tuple[State, int, str]:
        run = await offered(controller)
        return run.state, controller.busy, run.status

    assert controlled(config, scenario) == (State.OFFERED, 0, "queued")


def test_a_claim_begins_the_oldest_run_and_remembers_no_lease_in_the_clear(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> None:
        first, _ = await offered(controller), await offered(controller)
        got = await controller.claim("ws", digest_of("lease"), AGENT)
        assert got == {"run_id": first.run_id, "attempt": 1}
        claim = claim_of(controller, first.run_id)
        assert (claim["lease_sha256"], claim["agent"]["host"]) == (digest_of("lease"), "workstation")
        assert (await controller.write(controller.registry.run, first.run_id)).state == State.BUILDING

    controlled(config, scenario)


def test_the_same_lease_gets_the_same_run_and_another_one_none_while_the_slots_are_full(
    config: ProjectConfig,
) -> None:
    async def scenario(controller: RunController) -> None:
        await offered(controller), await offered(controller)
        got = await controller.claim("ws", digest_of("lease"), AGENT)
        assert await controller.claim("ws", digest_of("lease"), AGENT) == got
        assert await controller.claim("ws", digest_of("another"), AGENT) is None

    controlled(config, scenario)


def test_of_many_claims_at_once_one_gets_the_run(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> int:
        await offered(controller)
        claims = (controller.claim("ws", digest_of(str(n)), AGENT) for n in range(20))
        return sum(got is not None for got in await asyncio.gather(*claims))

    assert controlled(config, scenario) == 1


def test_an_agent_gets_no_run_of_another_backend_and_none_once_the_queue_is_held(
    config: ProjectConfig,
) -> None:
    async def scenario(controller: RunController) -> None:
        await offered(controller)
        assert await controller.claim("other", digest_of("lease"), AGENT) is None
        await controller.hold_queue()
        assert await controller.claim("ws", digest_of("lease"), AGENT) is None

    controlled(config, scenario)


def test_an_offer_that_nobody_takes_ends_after_its_time(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> Run:
        now = [0.0]
        controller.desk._clock = lambda: now[0]
        run = await offered(controller)
        now[0] = 31.0
        while not (run := await controller.write(controller.registry.run, run.run_id)).ended:
            await asyncio.sleep(0.005)
        return run

    run: Run = controlled(config, scenario)
    assert (run.state, run.error_code) == (State.ERROR, "queue_timeout")
    assert run.error == "No agent on ws asked for work for 30 seconds."


def left_on_offer(config: ProjectConfig, timeout_s: float, backend: str = "ws") -> Run:
    """A run that is on offer when its controller stops; an offer may last so long."""
    text = config.path.read_text()
    config.path.write_text(text.replace("queue_timeout_s: 30", f"queue_timeout_s: {timeout_s:g}", 1))
    run: Run = controlled(load(config.path), lambda controller: offered(controller, backend))
    return run


def after_a_restart(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, run: Run, away_s: float, waits_s: float
) -> State:
    """The state of a run once a controller that comes after so long has waited so long."""
    looks: list[None] = []
    look = AgentDesk.look_after_offers

    async def counted(desk: AgentDesk) -> bool:
        waits = await look(desk)
        looks.append(None)
        return waits

    monkeypatch.setattr(AgentDesk, "look_after_offers", counted)

    async def scenario(controller: RunController) -> State:
        now = [0.0]
        controller.desk._clock = lambda: now[0]
        controller.desk._wall_clock = lambda: (run.offered_at or 0.0) + away_s
        while not looks:
            await asyncio.sleep(0.005)
        now[0] = waits_s
        looks.clear()
        while True:
            state = (await controller.write(controller.registry.run, run.run_id)).state
            if state == State.ERROR or len(looks) > 1:
                return state
            await asyncio.sleep(0.005)

    state: State = controlled(load(config.path), scenario)
    return state


@pytest.mark.parametrize(("waits_s", "state"), [(399.0, State.OFFERED), (401.0, State.ERROR)])
def test_an_offer_goes_on_from_where_it_was_when_the_server_comes_back(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, waits_s: float, state: State
) -> None:
    run = left_on_offer(config, 1000.0)
    assert after_a_restart(config, monkeypatch, run, 600.0, waits_s) == state


@pytest.mark.parametrize(("waits_s", "state"), [(59.0, State.OFFERED), (61.0, State.ERROR)])
def test_agents_have_a_minute_to_come_back_with_the_server(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, waits_s: float, state: State
) -> None:
    run = left_on_offer(config, 1000.0)
    assert after_a_restart(config, monkeypatch, run, 5000.0, waits_s) == state


def test_what_an_ended_run_has_left_to_fetch_goes_with_the_next_controller(config: ProjectConfig) -> None:
    async def ends(controller: RunController) -> Run:
        run = await offered(controller)
        await controller.cancel(run.run_id)
        folder = controller.run_folder(run.run_id)
        folder.mkdir(parents=True)
        (folder / "bundle.tar.gz").touch()
        return run

    async def comes_back(controller: RunController) -> None:
        archive = controller.run_folder(run.run_id) / "bundle.tar.gz"
        assert archive.exists()
        await controller.ready()
        while archive.exists():
            await asyncio.sleep(0.005)

    run = controlled(config, ends)
    controlled(config, comes_back)


def test_an_offered_run_is_cancelled_at_once_and_claimed_no_more(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> None:
        run = await offered(controller)
        assert (await controller.cancel(run.run_id))["cancelled"]
        assert await controller.claim("ws", digest_of("lease"), AGENT) is None

    controlled(config, scenario)


def test_a_new_token_replaces_the_old_one(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> None:
        first, second = [(await controller.register_backend("ws"))["token"] for _ in range(2)]
        assert first != second
        assert controller.reader.backend_of_token(digest_of(first)) is None
        assert controller.reader.backend_of_token(digest_of(second)) == "ws"

    controlled(config, scenario)


@pytest.mark.parametrize(("name", "error"), [("local", Conflict), ("nowhere", NotFound)])
def test_only_an_agent_backend_has_a_token(config: ProjectConfig, name: str, error: type[Exception]) -> None:
    async def scenario(controller: RunController) -> None:
        with pytest.raises(error):
            await controller.register_backend(name)

    controlled(config, scenario)


def test_agents_that_were_heard_of_are_recorded(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> None:
        seen = {"agent_id": "a1", "host": "workstation", "gpus": [{"uuid": "GPU-1"}], "last_seen": 7.0}
        await controller.agents_seen("ws", [seen])
        [agent] = controller.reader.agents("ws")
        assert (agent.host, agent.gpus, agent.last_seen) == ("workstation", ({"uuid": "GPU-1"},), 7.0)

    controlled(config, scenario)


def test_a_run_whose_claim_cannot_be_written_waits_again_and_holds_no_slot(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [OSError(28, "No space left on device")]
    write = MirrorFolder.write_claim

    def fails_once(mirror: MirrorFolder, claim: ClaimNote) -> None:
        if full:
            raise full.pop()
        write(mirror, claim)

    monkeypatch.setattr(MirrorFolder, "write_claim", fails_once)

    async def scenario(controller: RunController) -> None:
        run = await offered(controller)
        with pytest.raises(ProjectUnwritable) as refused:
            await controller.claim("ws", digest_of("lease"), AGENT)
        assert refused.value.code == "disk_full"
        assert controller.busy == 0
        while (got := await controller.claim("ws", digest_of("lease"), AGENT)) is None:
            await asyncio.sleep(0.005)
        assert got == {"run_id": run.run_id, "attempt": 2}

    controlled(config, scenario)


def test_a_run_that_nobody_can_plan_does_not_hold_up_those_behind_it(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(controller: RunController) -> None:
        first, second = await offered(controller), await offered(controller)
        plan = controller.admission.plan_again
        monkeypatch.setattr(
            controller.admission,
            "plan_again",
            lambda run: 1 / 0 if run.run_id == first.run_id else plan(run),
        )
        got = await controller.claim("ws", digest_of("lease"), AGENT)
        assert got == {"run_id": second.run_id, "attempt": 1}
        assert (await controller.write(controller.registry.run, first.run_id)).state == State.ERROR

    controlled(config, scenario)


@pytest.mark.parametrize(("waits_s", "state"), [(799.0, State.OFFERED), (801.0, State.ERROR)])
def test_time_in_which_the_slots_were_full_counts_no_more_after_a_restart(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, waits_s: float, state: State
) -> None:
    run = left_on_offer(config, 1000.0)
    held = (run.offered_at or 0.0) + 100.0, (run.offered_at or 0.0) + 500.0
    monkeypatch.setattr("potato_ray.registry.occupancy.spans_between", lambda *given: [held])
    assert after_a_restart(config, monkeypatch, run, 600.0, waits_s) == state


# --- what an offer waits for ---------------------------------------------------------------------------


def test_an_offer_says_that_it_waits_for_a_slot_as_long_as_it_does(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> None:
        await offered(controller, "other")
        second = await offered(controller, "other")

        async def says(step: str) -> None:
            while (await controller.write(controller.registry.run, second.run_id)).step != step:
                await asyncio.sleep(0.005)

        await says("")
        assert await controller.claim("other", digest_of("lease"), AGENT)
        await says("waiting for a free slot (max_concurrent_runs is 1)")
        for way in list(controller._ways.values()):
            way.let_go()
        await says("")

    controlled(config, scenario)


# --- how long an offer waits --------------------------------------------------------------------------


async def looked(controller: RunController, now: list[float], second: float) -> Run:
    """The oldest unfinished run on offer once the desk has looked at that second."""
    now[0] = second
    await controller.desk.look_after_offers()
    return (await controller.write(controller.registry.unfinished))[-1]


def test_an_offer_waits_no_time_while_the_slots_are_full(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> None:
        now = [0.0]
        controller.desk._clock = lambda: now[0]
        await offered(controller)
        assert await controller.claim("ws", digest_of("lease"), AGENT)
        second = await offered(controller)
        for moment in (100.0, 200.0, 300.0):
            assert (await looked(controller, now, moment)).state == State.OFFERED
        for way in list(controller._ways.values()):
            way.let_go()
        while controller.busy:
            await asyncio.sleep(0.005)
        await controller.desk.look_after_offers()
        assert (await looked(controller, now, 329.0)).state == State.OFFERED
        now[0] = 331.0
        await controller.desk.look_after_offers()
        run = await controller.write(controller.registry.run, second.run_id)
        assert (run.state, run.error_code) == (State.ERROR, "queue_timeout")
        assert "no slot was free (max_concurrent_runs is 1)" in run.error_evidence

    controlled(config, scenario)


def test_a_run_that_can_be_given_to_nobody_ends_with_its_offer_and_says_why(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(mirror: MirrorFolder, claim: ClaimNote) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MirrorFolder, "write_claim", full)

    async def scenario(controller: RunController) -> Run:
        now = [0.0]
        controller.desk._clock = lambda: now[0]
        run = await offered(controller)
        while not (run := await controller.write(controller.registry.run, run.run_id)).ended:
            now[0] += 1.0
            if run.state == State.OFFERED:
                with contextlib.suppress(ProjectUnwritable):
                    await controller.claim("ws", digest_of("lease"), AGENT)
            await asyncio.sleep(0.005)
        assert now[0] < 300.0
        return run

    run: Run = controlled(config, scenario)
    assert (run.state, run.error_code) == (State.ERROR, "queue_timeout")
    assert "could not be given to an agent" in run.error
    assert "No space left on device" in run.error_evidence


def test_an_offer_that_is_claimed_just_as_it_expires_harms_nothing(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(controller: RunController) -> State:
        now = [0.0]
        controller.desk._clock = lambda: now[0]
        run = await offered(controller)
        await controller.desk.look_after_offers()
        refuse = controller.admission.refuse

        async def late(run: Run, error: Any) -> None:
            await controller.claim("ws", digest_of("lease"), AGENT)
            await refuse(run, error)

        monkeypatch.setattr(controller.admission, "refuse", late)
        now[0] = 31.0
        await controller.desk.look_after_offers()
        state: State = (await controller.write(controller.registry.run, run.run_id)).state
        return state

    assert controlled(config, scenario) == State.BUILDING
