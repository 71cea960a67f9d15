"""A wait for a channel ends as soon as somebody asks for its end."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from potato_ray.backends.host_dialogue import Dialogue
from potato_ray.errors import Cancelled
from potato_ray.ssh import SshTimeout
from potato_ray.ssh.channel import Channel
from potato_ray.ssh.pipes import Pipes
from potato_ray.ssh.script import MarkedScript


def soon() -> Callable[[], bool]:
    """Asks for the end when it is looked at for the fourth time."""
    looks = itertools.count()
    return lambda: next(looks) >= 3


def channel_to(command: str, stop: Callable[[], bool]) -> Channel:
    pipes = Pipes(["sh", "-c", command], os.environ)
    return Channel("gpu1", MarkedScript("true", takes_input=True), iter([pipes]), lambda _: None, stop)


@pytest.fixture
def silent() -> Iterator[Channel]:
    """To a command that neither says nor reads anything."""
    with channel_to("exec sleep 60", soon()) as channel:
        yield channel


@pytest.mark.parametrize(
    "wait",
    [
        lambda channel: channel.wait_for_sentinel(30.0),
        lambda channel: channel.send(bytes(1 << 22), 30.0),
        lambda channel: channel.read_line(30.0),
        lambda channel: channel.read(1, 30.0),
    ],
)
def test_every_wait_hears_that_it_is_to_end(silent: Channel, wait: Callable[[Channel], object]) -> None:
    with pytest.raises(Cancelled, match="given up on request"):
        wait(silent)


def test_a_host_that_never_pauses_cannot_keep_the_end_from_being_heard() -> None:
    with channel_to("exec yes", soon()) as channel, pytest.raises(Cancelled):
        [channel.read_line(30.0) for _ in range(1000)]


class Silent:
    """A connection to a host that says nothing of ours."""

    host = "gpu1"

    def start(self, script: str, stop: Callable[[], bool]) -> Channel:
        channel = channel_to("while sleep 0.01; do echo noise; done", stop)
        channel.wait_for_sentinel = lambda timeout_s: None  # type: ignore[method-assign]
        channel.send = lambda data, timeout_s: None  # type: ignore[method-assign]
        return channel


def test_one_deadline_lies_over_a_dialogue_and_is_told_whole() -> None:
    with (
        Dialogue(Silent(), "python3", {}, within_s=0.3) as dialogue,  # type: ignore[arg-type]
        pytest.raises(SshTimeout, match=r"within 0\.3 s"),
    ):
        dialogue.hear("facts", 30.0)
