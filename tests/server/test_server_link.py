"""Commands to a controller that is coming up, being restarted, or gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from potato_ray.errors import Conflict, NotFound, NotSent, PotatoRayError
from potato_ray.server.context import Phase, Unavailable
from potato_ray.server.link import LiveLink
from potato_ray.starting import StartRequest

RESTARTING = Conflict("It did not answer.", code="controller_restarting")
REQUEST = StartRequest(trainer="t", schemas=("s",))


class Caller:
    """Gives these answers, the last one again and again; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
        self.asked.append((method, *args))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def linked(*answers: Any, phase: Phase = Phase.READY, patience_s: float = 5.0) -> tuple[LiveLink, Caller]:
    caller = Caller(*answers)
    link = LiveLink(caller, patience_s)
    link.enter(phase)
    return link, caller


def test_a_command_is_answered_by_the_controller() -> None:
    link, caller = linked(3)
    assert asyncio.run(link.command("withdraw", "r1")) == 3
    assert caller.asked == [("withdraw", "r1")]


def test_a_command_waits_for_a_controller_that_comes_up() -> None:
    link, caller = linked("done", phase=Phase.STARTING)

    async def both() -> Any:
        waiting = asyncio.create_task(link.command("cancel", "r1"))
        await asyncio.sleep(0.02)
        assert caller.asked == []
        link.enter(Phase.READY)
        return await waiting

    assert asyncio.run(both()) == "done"


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RESTARTING])
def test_a_controller_that_does_not_come_up_is_unavailable(phase: Phase) -> None:
    link, caller = linked("never", phase=phase, patience_s=0.1)
    with pytest.raises(Unavailable, match=str(phase)):
        asyncio.run(link.command("cancel", "r1"))
    assert caller.asked == []


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.STOPPING])
def test_nobody_waits_for_a_controller_that_will_not_come(phase: Phase) -> None:
    link, _ = linked("never", phase=phase, patience_s=3600.0)
    with pytest.raises(Unavailable):
        asyncio.run(link.command("cancel", "r1"))


def test_why_the_controller_failed_is_said() -> None:
    link, _ = linked("never", phase=Phase.FAILED)
    link.trouble = PotatoRayError("The registry is damaged.", next_step="Move it aside.")
    with pytest.raises(Unavailable, match="The registry is damaged") as unavailable:
        asyncio.run(link.command("cancel", "r1"))
    assert unavailable.value.next_step == "Move it aside."


def test_nobody_is_told_to_come_back_in_seconds_to_a_server_that_stops() -> None:
    link, _ = linked("never", phase=Phase.STOPPING)
    with pytest.raises(Unavailable, match="is stopping") as unavailable:
        asyncio.run(link.command("cancel", "r1"))
    assert unavailable.value.next_step == "Try again when it is up."


def test_a_start_that_was_not_answered_is_repeated_with_the_same_key() -> None:
    link, caller = linked(RESTARTING, RESTARTING, {"started": True})
    assert asyncio.run(link.command("start", REQUEST)) == {"started": True}
    keys = {request.idempotency_key for _, request in caller.asked}
    assert len(caller.asked) == 3
    assert len(keys) == 1
    assert keys != {None}


def test_a_key_that_was_given_is_kept() -> None:
    link, caller = linked({"started": True})
    request = StartRequest(trainer="t", schemas=("s",), idempotency_key="mine")
    asyncio.run(link.command("start", request))
    assert caller.asked == [("start", request)]


def test_a_start_that_is_never_answered_is_given_up() -> None:
    link, caller = linked(RESTARTING, patience_s=0.1)
    with pytest.raises(Unavailable, match="may have been taken") as unanswered:
        asyncio.run(link.command("start", REQUEST))
    assert unanswered.value.code == "controller_restarting"
    assert len(caller.asked) > 1


@pytest.mark.parametrize("method", ["cancel", "withdraw"])
def test_what_may_have_been_taken_is_not_sent_again_unless_it_is_a_start(method: str) -> None:
    link, caller = linked(RESTARTING, "a second answer")
    with pytest.raises(Unavailable, match="may have been taken") as unanswered:
        asyncio.run(link.command(method, "r1"))
    assert unanswered.value.code == "controller_restarting"
    assert caller.asked == [(method, "r1")]


def test_what_was_never_sent_is_sent_again_and_else_nothing_has_come_of_it() -> None:
    link, _ = linked(NotSent("There is none."), NotSent("There is none."), "done")
    assert asyncio.run(link.command("cancel", "r1")) == "done"
    link, _ = linked(NotSent("There is none."), patience_s=0.1)
    with pytest.raises(Unavailable) as unavailable:
        asyncio.run(link.command("cancel", "r1"))
    assert unavailable.value.code == "controller_unavailable"


def test_a_start_that_was_sent_may_have_been_taken_also_when_the_controller_fails_then() -> None:
    link, _ = linked("never")

    class Failing(Caller):
        def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
            link.enter(Phase.FAILED)
            raise RESTARTING

    link._caller = Failing("never")
    with pytest.raises(Unavailable, match="may have been taken") as unanswered:
        asyncio.run(link.command("start", REQUEST))
    assert unanswered.value.code == "controller_restarting"


def test_what_the_command_itself_raises_is_raised_at_once() -> None:
    link, caller = linked(NotFound("No such run."))
    with pytest.raises(NotFound):
        asyncio.run(link.command("cancel", "r1"))
    assert len(caller.asked) == 1


def test_an_unexpected_error_of_a_living_controller_is_not_repeated() -> None:
    link, caller = linked(RuntimeError("a fault of ours"))
    with pytest.raises(RuntimeError, match="a fault of ours"):
        asyncio.run(link.command("cancel", "r1"))
    assert len(caller.asked) == 1


class OfRay(Caller):
    """Its failures come out of Ray's own code, as seen by their tracebacks."""

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
        names = {"__name__": "ray._private.worker", "answer": super().call}
        exec("def get(*args): return answer(*args)", names)  # noqa: S102 - a module's name is needed
        return names["get"](method, *args)


def test_a_failure_inside_ray_that_nobody_has_noticed_yet_is_ridden_out() -> None:
    link, _ = linked("never")
    link._caller = OfRay(RuntimeError("the raylet is gone"), "done")
    assert asyncio.run(link.command("start", REQUEST)) == "done"


def test_what_ray_only_hands_on_is_raised() -> None:
    class RayTaskError(RuntimeError):
        pass

    link, _ = linked("never")
    link._caller = OfRay(RayTaskError("a fault in the controller"))
    with pytest.raises(RayTaskError):
        asyncio.run(link.command("start", REQUEST))


def test_a_failure_of_ray_that_is_going_is_ridden_out() -> None:
    link, _ = linked("done")

    class Going(Caller):
        def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
            if not self.asked:
                self.asked.append((method,))
                link.enter(Phase.RESTARTING)
                raise RuntimeError("Ray has not been started yet")
            return super().call(method, *args)

    link._caller = Going("done")

    async def both() -> Any:
        waiting = asyncio.create_task(link.command("start", REQUEST))
        while link.phase is not Phase.RESTARTING:
            await asyncio.sleep(0.01)
        link.enter(Phase.READY)
        return await waiting

    assert asyncio.run(both()) == "done"


def test_a_link_that_was_closed_stays_closed() -> None:
    link, _ = linked("never")
    link.close()
    link.enter(Phase.READY)
    assert link.phase is Phase.STOPPING


def test_a_command_that_hangs_is_let_go_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potato_ray.server.link.ANSWER_WITHIN_S", 0.05)
    link, _ = linked("never")
    asked, over = threading.Event(), threading.Event()

    class Hanging(Caller):
        def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
            asked.set()
            over.wait(10.0)

    link._caller = Hanging("never")

    async def both() -> Any:
        hanging = asyncio.create_task(link.command("cancel", "r1"))
        await asyncio.to_thread(asked.wait, 10.0)
        link.close()
        with pytest.raises(Unavailable, match="may have been taken"):
            await hanging

    asyncio.run(both())
    over.set()


class Stuck(Caller):
    """Never answers before `over`."""

    def __init__(self) -> None:
        super().__init__("too late")
        self.begun, self.over = threading.Event(), threading.Event()

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
        self.asked.append((method, *args))
        self.begun.set()
        self.over.wait(10.0)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LiveLink, Stuck]]:
    """A link with one thread, whose calls don't come back."""
    monkeypatch.setattr("potato_ray.server.link.COMMANDS_AT_ONCE", 1)
    monkeypatch.setattr("potato_ray.server.link.LEAST_S", 0.05)
    monkeypatch.setattr("potato_ray.server.link.LATE_S", 0.05)
    caller = Stuck()
    link = LiveLink(caller, patience_s=0.1)
    link.enter(Phase.READY)
    yield link, caller
    caller.over.set()
    link.close()


def test_a_command_that_no_thread_is_free_for_is_not_sent_after_its_time(stuck) -> None:
    link, caller = stuck

    async def both() -> Unavailable:
        first = asyncio.create_task(link.command("cancel", "r1"))
        await asyncio.to_thread(caller.begun.wait, 10.0)
        with pytest.raises(Unavailable, match="was not sent") as unsent:
            await asyncio.wait_for(link.command("cancel", "r2"), 5)
        caller.over.set()
        await asyncio.gather(first, return_exceptions=True)
        return unsent.value

    assert asyncio.run(both()).code == "controller_unavailable"
    assert caller.asked == [("cancel", "r1")]


def test_a_command_that_was_sent_and_is_never_answered_may_have_been_taken(stuck) -> None:
    link, _ = stuck

    async def hanging() -> None:
        await asyncio.wait_for(link.command("cancel", "r1"), 5)

    with pytest.raises(Unavailable, match="may have been taken") as unanswered:
        asyncio.run(hanging())
    assert unanswered.value.code == "controller_restarting"


LOCKED = Conflict("project.sqlite is locked.", code="registry_locked")


def test_a_start_waits_for_a_registry_that_another_program_locks() -> None:
    link, caller = linked(LOCKED, LOCKED, {"started": True})
    assert asyncio.run(link.command("start", REQUEST)) == {"started": True}
    keys = {asked[1].idempotency_key for asked in caller.asked}
    assert (len(caller.asked), len(keys)) == (3, 1)


@pytest.mark.parametrize(("method", "patience_s"), [("start", 0.0), ("withdraw", 5.0)])
def test_a_lock_that_stays_and_one_met_half_way_are_told(method: str, patience_s: float) -> None:
    link, caller = linked(LOCKED, patience_s=patience_s)
    with pytest.raises(Conflict) as refused:
        asyncio.run(link.command(method, REQUEST))
    assert (refused.value.code, len(caller.asked)) == ("registry_locked", 1)
