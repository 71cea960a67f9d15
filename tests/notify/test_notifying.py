"""Notices on their way to a real receiver: retried, taken up again, given up, and never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock
from receiver import HANG, Receiver

from potato_ray.actors.notifying import Notifier, page_of
from potato_ray.config import load
from potato_ray.config.models import Notify
from potato_ray.registry import NewRun, Registry, RegistryReader, Run, State
from potato_ray.webhook import GIVE_UP_AFTER_S, PAUSES_S, signature

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(tmp_path: Path, clock: Clock) -> Iterator[Registry]:
    with Registry(tmp_path / "project.sqlite", "demo", clock, notices=True) as opened:
        yield opened


@pytest.fixture
def run(registry: Registry) -> Run:
    """A run that has been cancelled, so that its end is to be told."""
    new = registry.create_run(NEW, queue_max=10, allow_queue=True, max_concurrent=1)
    return registry.request_cancel(new.run_id)


async def write(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def notifier(registry: Registry, clock: Clock, url: str, **more: Any) -> Notifier:
    secret_env = more.pop("secret_env", None)
    options = {"environ": {"HOOK_SECRET": "hush"}, "timeout_s": 5.0, **more}
    settings = Notify(url=url, secret_env=secret_env)
    return Notifier(settings, registry, write, lambda run_id: f"http://here/{run_id}", clock=clock, **options)


def deliver(sender: Notifier) -> float | None:
    return asyncio.run(sender.deliver_due())


def log_of(registry: Registry, run: Run) -> list[tuple[str, str]]:
    """(level, message) of what the run's log says of its webhook."""
    events = RegistryReader(registry.path).events(run.run_id)
    assert {event["source"] for event in events} <= {"server"}
    # The first is the run's own end.
    return [(event["level"], event["message"]) for event in events[1:]]


def test_a_delivered_notice_is_said_in_the_log_and_forgotten(
    registry: Registry, clock: Clock, run: Run
) -> None:
    with Receiver(204) as receiver:
        assert deliver(notifier(registry, clock, receiver.url)) is None
    (got,) = receiver.got
    assert (got.path, got.body["run_id"], got.body["state"]) == ("/hook", run.run_id, "cancelled")
    assert got.body["url"] == f"http://here/{run.run_id}"
    assert got.headers["potato-ray-delivery"] == got.body["delivery_id"]
    place = f"http://127.0.0.1:{receiver.port}"
    assert log_of(registry, run) == [("info", f"The webhook was delivered: {place} answered 204.")]
    assert registry.first_notice() is None


def test_a_notice_is_signed_with_the_secret_of_the_environment(
    registry: Registry, clock: Clock, run: Run
) -> None:
    with Receiver(200) as receiver:
        deliver(notifier(registry, clock, receiver.url, secret_env="HOOK_SECRET"))
    (got,) = receiver.got
    assert got.headers["potato-ray-signature"] == signature("hush", int(clock.now), got.raw)


def test_nothing_is_sent_while_the_secret_is_missing(registry: Registry, clock: Clock, run: Run) -> None:
    with Receiver(200) as receiver:
        deliver(notifier(registry, clock, receiver.url, secret_env="HOOK_SECRET", environ={}))
        assert receiver.got == []
        assert "HOOK_SECRET, which is to hold the secret, is not set" in log_of(registry, run)[0][1]
        clock.now += PAUSES_S[0]
        deliver(notifier(registry, clock, receiver.url, secret_env="HOOK_SECRET"))
    assert len(receiver.got) == 1


def test_paths_of_the_machine_are_not_told(registry: Registry, clock: Clock) -> None:
    run = registry.create_run(NEW, queue_max=10, allow_queue=True, max_concurrent=1)
    registry.begin(run.run_id, None, 1)
    said = f"/home/ann/venv/bin/python lacks setfit; {registry.path.parent}/data/a.csv is damaged."
    advice = "/home/ann/venv/bin/python -m pip install setfit"
    registry.transition(run.run_id, 1, State.ERROR, error=said, error_next_step=advice)
    with Receiver(200) as receiver:
        deliver(notifier(registry, clock, receiver.url))
    (got,) = receiver.got
    assert got.body["error"] == "…/python lacks setfit; data/a.csv is damaged."
    assert got.body["next_step"] == "…/python -m pip install setfit"


def test_a_receiver_that_fails_twice_is_tried_again_after_growing_pauses(
    registry: Registry, clock: Clock, run: Run
) -> None:
    with Receiver(503, 503, 200) as receiver:
        sender = notifier(registry, clock, receiver.url)
        assert deliver(sender) == pytest.approx(5.0)
        assert deliver(sender) == pytest.approx(5.0)
        clock.now += 5.0
        assert deliver(sender) == pytest.approx(30.0)
        clock.now += 30.0
        assert deliver(sender) is None
    assert len({got.body["delivery_id"] for got in receiver.got}) == 1
    assert [got.body["sent_at"] for got in receiver.got] == [clock.now - 35.0, clock.now - 30.0, clock.now]
    place = f"http://127.0.0.1:{receiver.port}"
    assert log_of(registry, run) == [
        ("info", f"The webhook could not be delivered: {place} answered 503; next try in 5 s."),
        ("info", f"The webhook could not be delivered: {place} answered 503; next try in 30 s."),
        ("info", f"The webhook was delivered: {place} answered 200."),
    ]
    assert registry.run(run.run_id).warnings == ()


def test_a_receiver_that_is_down_at_first_gets_it_later(registry: Registry, clock: Clock, run: Run) -> None:
    port = free_port()
    sender = notifier(registry, clock, f"http://127.0.0.1:{port}/hook")
    deliver(sender)
    assert "could not be asked: ConnectError" in log_of(registry, run)[0][1]
    clock.now += PAUSES_S[0]
    with Receiver(200, port=port) as receiver:
        assert deliver(sender) is None
    assert len(receiver.got) == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_receiver_that_hangs_is_left_at_the_deadline(registry: Registry, clock: Clock, run: Run) -> None:
    with Receiver(HANG) as receiver:
        deliver(notifier(registry, clock, receiver.url, timeout_s=0.3))
    assert "gave no answer within 0.3 s; next try in 5 s" in log_of(registry, run)[0][1]


def test_a_redirect_is_not_followed(registry: Registry, clock: Clock, run: Run) -> None:
    with Receiver(200) as elsewhere, Receiver((302, {"Location": elsewhere.url})) as receiver:
        assert deliver(notifier(registry, clock, receiver.url)) == pytest.approx(5.0)
    assert elsewhere.got == []
    assert "answered 302, and redirects are not followed" in log_of(registry, run)[0][1]


def test_a_receiver_that_is_gone_for_good_is_a_warning_of_the_run(
    registry: Registry, clock: Clock, run: Run
) -> None:
    with Receiver(410) as receiver:
        assert deliver(notifier(registry, clock, receiver.url)) is None
    assert registry.first_notice() is None
    (warning,) = registry.run(run.run_id).warnings
    assert "answered 410, which asks for no more. It was given up after try 1" in warning


def test_a_receiver_that_asks_for_time_gets_it(registry: Registry, clock: Clock, run: Run) -> None:
    with Receiver((429, {"Retry-After": "7200"}), 200) as receiver:
        sender = notifier(registry, clock, receiver.url)
        assert deliver(sender) == pytest.approx(7200.0)
    assert log_of(registry, run)[0][1].endswith("answered 429; next try in 2 h.")


def test_after_a_day_it_is_given_up_with_a_warning(registry: Registry, clock: Clock, run: Run) -> None:
    began, waits = clock.now, 0.0
    with Receiver(500) as receiver:
        sender = notifier(registry, clock, receiver.url)
        while (wait_s := deliver(sender)) is not None:
            clock.now += wait_s
            waits += wait_s
    assert len(receiver.got) == len(PAUSES_S) + 1
    assert waits == pytest.approx(sum(PAUSES_S))
    assert clock.now - began < GIVE_UP_AFTER_S
    assert "given up after try 9" in registry.run(run.run_id).warnings[0]


def test_what_another_process_left_is_sent_even_after_days(
    registry: Registry, clock: Clock, run: Run
) -> None:
    clock.now += 3 * GIVE_UP_AFTER_S
    with Receiver(200) as receiver:
        deliver(notifier(registry, clock, receiver.url))
    assert len(receiver.got) == 1


def test_a_notice_outlives_the_record_of_its_run(registry: Registry, clock: Clock, run: Run) -> None:
    assert registry.prune(retain_runs=0) == [run.run_id]
    with Receiver(500, 200) as receiver:
        sender = notifier(registry, clock, receiver.url)
        deliver(sender)
        clock.now += PAUSES_S[0]
        assert deliver(sender) is None
    assert receiver.got[1].body["run_id"] == run.run_id


@pytest.mark.parametrize("status", [200, 500, 410])
def test_neither_the_secret_nor_the_address_is_told_to_anybody(
    registry: Registry, clock: Clock, run: Run, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    with Receiver(status) as receiver:
        url = f"http://me:hush@127.0.0.1:{receiver.port}/hush?hush=1"
        deliver(notifier(registry, clock, url, secret_env="HOOK_SECRET"))
    assert receiver.got[0].headers["authorization"].startswith("Basic ")
    assert "hush" not in caplog.text
    assert "hush" not in str(log_of(registry, run))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "xn--a.example", "a..b", "127.0.0.1:1"])
def test_an_address_that_leads_nowhere_is_a_failed_try(
    registry: Registry, clock: Clock, run: Run, caplog: pytest.LogCaptureFixture, host: str
) -> None:
    deliver(notifier(registry, clock, f"http://me:hush@{host}/hush"))
    ((level, said),) = log_of(registry, run)
    assert level == "info"
    assert "could not be asked" in said
    assert "hush" not in said + caplog.text


@pytest.mark.parametrize(
    ("note", "enabled", "page"),
    [
        ('{"url": "http://127.0.0.1:8000/"}', True, "http://127.0.0.1:8000/admin/training/runs/r"),
        ('{"url": "http://127.0.0.1:8000"}', False, None),
        ('{"pid": 1}', True, None),
        ("{", True, None),
        (None, True, None),
    ],
)
def test_the_page_of_a_run_is_known_while_a_server_holds_the_project(
    tmp_path: Path, note: str | None, enabled: bool, page: str | None
) -> None:
    shutil.copytree(PROJECT, tmp_path / "p")
    config = load(tmp_path / "p" / "config.yaml")
    training = config.model_training.model_copy(update={"enabled": enabled})
    if note is not None:
        config.state_dir.mkdir()
        (config.state_dir / "server.json").write_text(note)
    assert page_of(config.model_copy(update={"model_training": training}), "r") == page


class Living:
    """A notifier whose task lives, for the length of a test."""

    def __init__(self, sender: Notifier) -> None:
        self.sender = sender

    async def __aenter__(self) -> Notifier:
        self.sender.start()
        return self.sender

    async def __aexit__(self, *_: object) -> None:
        await self.sender.close(0.0)


def test_closing_gives_what_is_due_a_last_chance(registry: Registry, clock: Clock) -> None:
    async def scenario() -> None:
        async with Living(notifier(registry, clock, receiver.url)) as sender:
            new = registry.create_run(NEW, queue_max=10, allow_queue=True, max_concurrent=1)
            registry.request_cancel(new.run_id)
            await sender.close(5.0)

    with Receiver(200) as receiver:
        asyncio.run(scenario())
        assert len(receiver.got) == 1
    assert registry.first_notice() is None


def test_closing_waits_no_longer_than_it_may_and_keeps_the_notice(
    registry: Registry, clock: Clock, run: Run
) -> None:
    async def scenario() -> float:
        began = asyncio.get_running_loop().time()
        async with Living(notifier(registry, clock, receiver.url)) as sender:
            await sender.close(0.2)
        return asyncio.get_running_loop().time() - began

    with Receiver(HANG) as receiver:
        assert asyncio.run(scenario()) < 4.0
    notice = registry.first_notice()
    assert notice is not None
    assert notice.tries == 0


def test_closing_does_not_wait_for_a_try_that_is_not_due(registry: Registry, clock: Clock, run: Run) -> None:
    async def scenario() -> float:
        async with Living(notifier(registry, clock, receiver.url)) as sender:
            began = asyncio.get_running_loop().time()
            await sender.close(30.0)
            return asyncio.get_running_loop().time() - began

    with Receiver(503) as receiver:
        assert asyncio.run(scenario()) < 10.0
        assert len(receiver.got) == 1


def test_a_registry_that_fails_does_not_end_the_notifier(
    registry: Registry, clock: Clock, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.actors.notifying.AFTER_TROUBLE_S", 0.0)
    failures = [sqlite3.OperationalError("disk I/O error"), None]

    async def unsteady(function: Callable[..., Any], *args: Any) -> Any:
        failure = failures.pop(0) if failures else None
        if failure:
            raise failure
        return function(*args)

    async def scenario() -> None:
        sender = notifier(registry, clock, receiver.url)
        sender._write = unsteady
        async with Living(sender):
            while registry.first_notice() is not None:
                await asyncio.sleep(0.01)

    with Receiver(200) as receiver:
        asyncio.run(asyncio.wait_for(scenario(), 20.0))
