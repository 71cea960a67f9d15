"""Following a run in the terminal, to its end or until nobody is there who could bring it there."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from potato_ray.cli.losing import MAX_SILENCES
from potato_ray.cli.progress import ASK_EVERY_S, follow
from potato_ray.cli.running import left
from potato_ray.cli.through_server import Server
from potato_ray.client.progress import Bar
from potato_ray.config import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.registry.runs import Run
from potato_ray.registry.snapshot import Snapshot
from potato_ray.registry.states import State

ENDLESS = 1000


def a_run(state: State = State.RUNNING, step: str = "", cancel_requested_at: float | None = None) -> Run:
    return Run(
        run_id="r",
        project="p",
        trainer="t",
        schemas=("s",),
        kinds=("nominal",),
        params={},
        backend="local",
        state=state,
        attempt=1,
        trigger="cli",
        created_at=0.0,
        step=step,
        cancel_requested_at=cancel_requested_at,
    )


class Replies:
    """A reader that shows a run in these conditions, one after the other."""

    def __init__(self, *runs: Run, current: tuple[Run, ...] = ()) -> None:
        self.left = list(runs)
        self.current = current

    def run(self, run_id: str) -> Run:
        return self.left.pop(0)

    def snapshot(self) -> Snapshot:
        return Snapshot(current=self.current)


def followed(replies: Replies, alive: Callable[[], bool] = lambda: True) -> tuple[Run, float]:
    """The run in which following ended, and how many seconds of the clock it took."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    run = follow(replies, "r", alive=alive, clock=lambda: now[0], sleep=sleep, terminal=False)  # type: ignore[arg-type]
    return run, now[0]


def test_following_shows_each_step_once_and_ends_with_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [a_run(step=step) for step in ("fitting", "fitting", "scoring")]
    run, _ = followed(Replies(*steps, a_run(State.SUCCESS)))
    assert run.state == State.SUCCESS
    assert capsys.readouterr().err.splitlines() == ["running: fitting", "running: scoring", "success"]


def test_a_long_step_says_every_30_seconds_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        replace(a_run(step="training"), current=n / 10, total=1_100.0, eta_s=130.0 - n / 10)
        for n in range(750)
    ]
    followed(Replies(*steps, a_run(State.SUCCESS)))
    assert capsys.readouterr().err.splitlines() == [
        "running: training",
        "running: training: 30 of 1,100, about 1 min 40 s left",
        "running: training: 60 of 1,100, about 1 min 10 s left",
        "success",
    ]


def test_a_step_that_gets_no_further_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    waits = [a_run(step="loading")] * 700
    late = [replace(a_run(step="loading", cancel_requested_at=1.0), current=n, total=9.0) for n in range(700)]
    followed(Replies(*waits, *late, a_run(State.CANCELLED)))
    assert capsys.readouterr().err.splitlines() == ["running: loading", "cancelling", "cancelled"]


def test_a_run_that_waits_says_what_is_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    waits = [replace(a_run(State.QUEUED), position=1)] * 50
    others = tuple(replace(a_run(), run_id=name) for name in ("one", "two", "three"))
    followed(Replies(*waits, a_run(State.SUCCESS), current=others[:1]))
    followed(Replies(*waits, a_run(State.SUCCESS), current=others))
    assert capsys.readouterr().err.splitlines() == [
        "waiting #1: under way is one (t)",
        "success",
        "waiting #1: under way are one (t), two (t) and 1 more",
        "success",
    ]


@pytest.mark.parametrize("width", [60, 100])
def test_a_long_step_line_leaves_the_bar_the_count_and_the_time_their_place(width: int) -> None:
    screen = io.StringIO()
    with Bar(Console(file=screen, width=width, force_terminal=True, color_system=None)) as bar:
        bar.show(f"running: training {'/a_long_folder' * 20} on pairs of texts", 500, 1_000)
        line = screen.getvalue().splitlines()[-1]
    assert "running: training /" in line
    assert "… ━" in line
    assert "500/1,000 0:00:00 -:--:--" in line


def test_the_bar_shows_nothing_before_it_is_told_what_the_run_does() -> None:
    screen = io.StringIO()
    with Bar(Console(file=screen, width=100, force_terminal=True)) as bar:
        assert screen.getvalue() == ""
        bar.show("cancelling", 0, 0)
    assert "cancelling" in screen.getvalue()
    assert "starting" not in screen.getvalue()


def test_following_stops_when_the_controller_is_lost() -> None:
    asked: list[bool] = []

    def alive() -> bool:
        asked.append(False)
        return False

    with pytest.raises(Conflict, match="does not answer any more") as lost:
        followed(Replies(*[a_run()] * ENDLESS), alive)
    assert lost.value.code == "controller_lost"
    assert "survive_s" in lost.value.next_step
    assert len(asked) == MAX_SILENCES


def test_a_controller_that_comes_back_is_not_lost() -> None:
    answers = [False, False, True] * 3 + [True]
    looks = round(len(answers) * (ASK_EVERY_S + 0.2) / 0.1)
    run, took_s = followed(Replies(*[a_run()] * looks, a_run(State.SUCCESS)), lambda: answers.pop(0))
    assert run.state == State.SUCCESS
    assert took_s > 9 * ASK_EVERY_S


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (a_run(), "goes on by itself for 300 s"),
        (a_run(cancel_requested_at=1.0), "ends within 320 s at the latest"),
        (a_run(cancel_requested_at=1.0), "config.yaml`, records the end"),
        (a_run(State.QUEUED), "is left as it is (queued)"),
        (a_run(State.FINISHING), "is left as it is (finishing)"),
        (a_run(State.CANCELLED), "has ended: cancelled"),
    ],
)
def test_what_becomes_of_a_run_that_is_left_is_said(project: ProjectConfig, run: Run, words: str) -> None:
    assert words in left(project, run)


@pytest.mark.parametrize(
    ("backend", "words"),
    [("ws", "only a server takes the run up"), ("local", "`potato-ray training run` or server takes it up")],
)
def test_a_server_that_has_stopped_is_called_that_and_not_ray(
    project: ProjectConfig, backend: str, words: str
) -> None:
    server = Server("http://127.0.0.1:8000", "key", agent_backends=("ws",))
    lost = server.lost(replace(a_run(), backend=backend))
    assert lost.code == "controller_lost"
    assert lost.message == "The server has stopped, so run r is no longer followed."
    assert "Ray" not in lost.evidence
    assert words in lost.next_step
