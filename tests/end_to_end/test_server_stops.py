"""A server told to stop amid its work: what it did and what waits goes on after the next start."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest
from killing import freeze
from server_process import ServerProcess
from test_server_life import lives, nothing_is_left_of, rehearsing, session_of
from whole_runs import MakeProject, add_items, ended, folder_of, reader_of, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

STOPS_WITHIN_S = 10.0
MANY_ITEMS = 15_000
"""So many that building and finishing can be met in the middle."""


class Stopped:
    """One server after the other on a project; each is told to stop and has to leave nothing behind."""

    def __init__(self, config: ProjectConfig) -> None:
        self.config = config
        self.server = ServerProcess(config)
        self.said = ""

    def start_again(self) -> ServerProcess:
        self.close()
        self.server = ServerProcess(self.config)
        return self.server.wait_ready()

    def stop(self, *numbers: int) -> int:
        """Send the signals, each once the one before has been heard; the exit code."""
        session = session_of(self.config)
        for number in numbers[:-1]:
            self.server.process.send_signal(number)
            self.server.wait_until(lambda: "Ctrl-C again" in self.server.said)
        began = time.monotonic()
        code = self.server.end(numbers[-1])
        assert time.monotonic() - began < STOPS_WITHIN_S
        self.said = self.server.said
        assert "Traceback" not in self.said
        assert nothing_is_left_of(self.server, session)
        return code

    def run(self, run_id: str) -> Run:
        return reader_of(self.config).run(run_id)

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def serving(make_project: MakeProject) -> Iterator[Callable[..., Stopped]]:
    """Makes a project with a server that is ready."""
    made: list[Stopped] = []

    def make(n_more_items: int = 0, **training: object) -> Stopped:
        config = make_project(**training)
        add_items(config, n_more_items)
        made.append(Stopped(config))
        made[-1].server.wait_ready()
        return made[-1]

    yield make
    for each in made:
        each.close()


def succeeds(house: Stopped, run_id: str) -> bool:
    """Whether a run that waits for the file `go` ends well with it."""
    rehearsing(house.config, run_id)
    (folder_of(house.config, run_id).path / "go").touch()
    return ended(house.config, run_id).state == State.SUCCESS


def test_a_run_that_sigterm_met_building_is_built_again_and_what_waits_follows_it(
    serving: Callable[..., Stopped],
) -> None:
    house = serving(MANY_ITEMS)
    first, second = (house.server.start_run("succeed") for _ in range(2))
    wait_until(house.config, first, lambda run: run.state == State.BUILDING and run.current > 0)
    freeze(house.server, "building task")
    assert house.stop(signal.SIGTERM) == 0
    assert f"run {first} is left as it is (building)" in house.said
    assert [house.run(each).state for each in (first, second)] == [State.BUILDING, State.QUEUED]
    house.start_again()
    ends = [ended(house.config, each) for each in (first, second)]
    assert [(run.state, run.attempt) for run in ends] == [(State.SUCCESS, 2), (State.SUCCESS, 1)]
    assert ends[0].bundle_digest == ends[1].bundle_digest
    assert (ends[0].finished_at or 0.0) < (ends[1].begun_at or 0.0)


def test_a_run_that_sigterm_met_finishing_is_written_back_whole_and_once(
    serving: Callable[..., Stopped],
) -> None:
    house = serving(MANY_ITEMS)
    first, second = (house.server.start_run("succeed") for _ in range(2))
    wait_until(house.config, first, lambda run: run.state == State.FINISHING)
    freeze(house.server, "finishing task")
    assert house.stop(signal.SIGTERM) == 0
    assert f"run {first} is left as it is (finishing)" in house.said
    assert [house.run(each).state for each in (first, second)] == [State.FINISHING, State.QUEUED]
    house.start_again()
    ends = [ended(house.config, each) for each in (first, second)]
    assert [(run.state, run.attempt) for run in ends] == [(State.SUCCESS, 1)] * 2
    for run in ends:
        n_lines = len(folder_of(house.config, run.run_id).predictions.read_text("utf-8").splitlines())
        assert run.writeback is not None
        assert run.writeback["n_read"] == run.writeback["n_written"] == n_lines > MANY_ITEMS


def test_the_second_ctrl_c_cancels_what_runs_and_leaves_what_waits(serving: Callable[..., Stopped]) -> None:
    house = serving(grace_seconds=2)
    running, waiting = house.server.start_run("wait"), house.server.start_run("wait")
    rehearsing(house.config, running)
    assert house.stop(signal.SIGINT, signal.SIGINT) == 130
    assert house.run(running).state == State.CANCELLED
    assert house.run(waiting).state == State.QUEUED
    assert not folder_of(house.config, waiting).path.exists()
    house.start_again()
    assert succeeds(house, waiting)


def test_no_run_begins_once_ctrl_c_has_named_those_that_go_on(serving: Callable[..., Stopped]) -> None:
    house = serving()
    running, waiting = house.server.start_run("wait"), house.server.start_run("wait")
    rehearsing(house.config, running)
    house.server.process.send_signal(signal.SIGINT)
    house.server.wait_until(lambda: "Ctrl-C again" in house.server.said)
    assert succeeds(house, running)
    assert house.server.end() == 130
    assert house.run(waiting).state == State.QUEUED
    house.start_again()
    assert succeeds(house, waiting)


def test_a_run_that_no_server_comes_back_for_ends_itself_and_the_next_one_says_so(
    serving: Callable[..., Stopped],
) -> None:
    house = serving(survive_s=3, grace_seconds=1)
    lost, waiting = house.server.start_run("wait"), house.server.start_run("succeed")
    rehearsing(house.config, lost)
    assert house.stop(signal.SIGTERM) == 0
    assert f"run {lost} goes on by itself for 3 s" in house.said
    assert lives(house.config, lost)
    deadline = time.monotonic() + 3 + 1 + STOPS_WITHIN_S
    while lives(house.config, lost):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    house.start_again()
    run = ended(house.config, lost)
    assert (run.state, run.error_code) == (State.ERROR, "heartbeat_lost")
    assert run.error_next_step
    assert ended(house.config, waiting).state == State.SUCCESS
