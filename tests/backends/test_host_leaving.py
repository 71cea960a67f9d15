"""Leaving a host behind a run that is over: its end is told first, the model comes home, nothing stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from fake_host import FakeHost, host_agent_on

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.artifact_copy import Copied
from potato_ray.backends.base import Directive, Outcome
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.leaving_turn import LeavingTurn
from potato_ray.backends.remote_note import (
    MOST_UNCLEARED,
    RemoteNote,
    followed_here,
    is_followed,
    read_note,
    uncleared,
    write_note,
)
from potato_ray.backends.ssh_run import SshRun
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.ssh import SshFailed, SshTimeout

DEADLINE_S = 20.0
CANCELLED = Outcome("cancelled")
LOST = Outcome("error", "heartbeat_lost", "No word.", "It had sent 3 events.", "Start again.")


class Scene:
    """A run whose agent is at work on a fake host; `heard` is in which order what was told and asked."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = FakeHost(tmp_path)
        self.agent = host_agent_on(self.host, monkeypatch)
        self.agent.open(Talk())
        self.directive = Directive(cancel=True, grace_s=7.0)
        self.notes: list[Mapping[str, Any]] = []
        self.heard: list[str] = []
        monkeypatch.setattr(HostAgent, "copy_artifacts", self._copied)
        answers = self.host.answers

        def asked(request: Mapping[str, Any]) -> dict[str, Any]:
            self.heard.append(request["do"])
            return answers(request)

        monkeypatch.setattr(self.host, "answers", asked)

    def _copied(self, talk: Talk) -> Copied:
        self.heard.append("copy")
        return Copied(1, 1, (), ())

    @property
    def mirror(self) -> MirrorFolder:
        return MirrorFolder(self.agent.job.folder)

    def sink(
        self, events: Sequence[Any], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive:
        self.notes += notes
        self.heard += [note["kind"] for note in notes if note["kind"] == "ended"]
        return self.directive

    def run(self) -> SshRun:
        return SshRun(self.agent, self.agent.job, self.sink)

    def leave(self, outcome: Outcome) -> Outcome:
        return self.run()._left_behind(outcome)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_a_cancelled_run_is_shown_as_such_then_stopped_brought_home_and_cleared_up(scene: Scene) -> None:
    scene.host.stopped = {"ended": True, "has_artifacts": True}
    assert scene.leave(CANCELLED) == CANCELLED
    assert scene.heard == ["ended", "stop", "copy", "clear_up"]
    stop = next(request for request in scene.host.asked if request["do"] == "stop")
    assert stop["grace_s"] == 7.0
    assert stop["wait_s"] > 7.0
    assert scene.notes[0]["error_code"] == "cancelled"


def test_a_cancelled_run_without_files_of_a_model_has_nothing_to_bring_home(scene: Scene) -> None:
    scene.leave(CANCELLED)
    assert scene.heard == ["ended", "stop", "clear_up"]


def test_the_end_of_a_lost_run_is_told_before_its_host_is_asked_for_anything(scene: Scene) -> None:
    assert scene.leave(LOST) == LOST
    assert scene.heard == ["ended", "clear_up"]
    note = scene.notes[0]
    assert (note["error_code"], note["evidence"]) == ("heartbeat_lost", "It had sent 3 events.")


def test_the_agent_s_log_comes_from_the_host_though_its_last_words_were_kept_before(scene: Scene) -> None:
    line: Any = scene.agent.connection.line
    line.close()
    scene.agent._words = "last words"
    scene.leave(LOST)
    assert scene.mirror.agent_log.read_text() == "words of the agent"


def test_an_end_that_was_known_is_answered_by_whoever_follows_the_run_next(scene: Scene) -> None:
    lost = replace(LOST, error_code="killed")
    scene.leave(lost)
    note = read_note(scene.agent.job.folder)
    assert note is not None
    assert note.cleared
    assert scene.run().run() == lost


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def noted(scene: Scene, outcome: Outcome, **note: Any) -> None:
    """Another follower has noted that end."""
    assert scene.agent.noted.note is not None
    write_note(scene.agent.job.folder, replace(scene.agent.noted.note, outcome=asdict(outcome), **note))


SUCCESS = Outcome("success", result={"macro_f1": 0.8}, artifact_uri="gpu1:/r/runs/r1.1")
HOME = replace(SUCCESS, artifact_uri="")


@pytest.mark.parametrize(
    ("own", "noted_one", "told"),
    [
        (SUCCESS, HOME, HOME),
        (LOST, HOME, HOME),
        (replace(LOST, status="unstarted"), HOME, HOME),
        (LOST, CANCELLED, CANCELLED),
        (HOME, LOST, HOME),
        (CANCELLED, LOST, CANCELLED),
        (CANCELLED, HOME, CANCELLED),
    ],
)
def test_the_end_that_another_follower_has_noted_counts_where_ours_is_a_failure_or_the_same(
    scene: Scene, own: Outcome, noted_one: Outcome, told: Outcome
) -> None:
    noted(scene, noted_one, cleared=True)
    assert scene.leave(own) == told
    assert "clear_up" not in scene.heard


def test_a_model_that_another_follower_has_brought_home_is_not_copied_again(scene: Scene) -> None:
    noted(scene, HOME, keep=True)
    assert scene.leave(SUCCESS) == HOME
    assert scene.heard == ["clear_up"]
    assert scene.host.asked[-1]["keep"] is True


def test_a_success_whose_end_cannot_be_read_again_is_brought_home_all_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MirrorFolder, "read_end", raising([OSError(24, "Too many open files")] * 9))
    scene.directive = Directive()
    assert scene.leave(SUCCESS) == HOME
    assert scene.heard == ["copy", "clear_up"]


def test_who_never_logged_in_clears_up_what_another_follower_has_on_the_host(scene: Scene) -> None:
    scene.directive = Directive()
    assert scene.agent.noted.note is not None
    write_note(scene.agent.job.folder, scene.agent.noted.note)
    scene.agent.noted.note = None
    assert scene.leave(SUCCESS) == HOME
    assert scene.heard == ["copy", "clear_up"]


def test_a_model_that_went_with_the_failure_of_another_follower_is_said_to_be_gone(scene: Scene) -> None:
    noted(scene, LOST, cleared=True)
    assert scene.leave(SUCCESS) == HOME
    assert "the model is gone" in scene.notes[-1]["message"]


def test_files_that_another_follower_let_stay_stay(scene: Scene) -> None:
    noted(scene, CANCELLED, keep=True)
    scene.leave(CANCELLED)
    assert scene.host.asked[-1]["keep"] is True


def test_of_two_followers_the_second_leaves_when_the_first_has_cleared_up(scene: Scene) -> None:
    with ThreadPoolExecutor(1) as pool:
        with LeavingTurn(scene.agent.job.folder) as first:
            assert first.take()
            second = pool.submit(scene.leave, SUCCESS)
            wait_for(lambda: any("model home" in str(note.get("step")) for note in scene.notes))
            noted(scene, HOME, cleared=True)
        assert second.result(DEADLINE_S) == HOME
    assert scene.heard == []


@pytest.mark.parametrize(
    ("directive", "status"),
    [(Directive(cancel=True), "cancelled"), (Directive(stale=True), "stale"), (Directive(), "error")],
)
def test_a_run_that_was_cleared_up_without_an_end_is_cancelled_where_that_was_asked_for(
    scene: Scene, directive: Directive, status: str
) -> None:
    assert scene.agent.noted.note is not None
    scene.agent.noted.note = replace(scene.agent.noted.note, cleared=True)
    scene.directive = directive
    assert scene.run().run().status == status


def test_whoever_has_nothing_to_say_of_a_run_any_more_leaves_no_end_of_it_behind(scene: Scene) -> None:
    scene.directive = Directive(stale=True)
    assert scene.leave(LOST).status == "stale"
    note = read_note(scene.agent.job.folder)
    assert note is not None
    assert note.outcome is None
    assert scene.host.does("clear_up") == 0


def test_what_the_sink_raises_passes_through_and_the_login_ends(scene: Scene) -> None:
    def raises(*_: Any) -> None:
        raise ConnectionError("the controller is gone")

    sink: Any = raises
    line: Any = scene.agent.connection.line
    scene.agent.means.agent_socket.touch()
    with pytest.raises(ConnectionError):
        SshRun(scene.agent, scene.agent.job, sink).run()
    assert not line.is_alive
    assert not is_followed(scene.agent.job.folder)


def test_a_full_disk_here_fails_the_run_in_words(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(HostAgent, "open", full)
    scene.directive = Directive()
    monkeypatch.setattr(HostAgent, "clear_up", lambda *_, **__: None)
    scene.agent.means.agent_socket.touch()
    assert scene.run().run().error_code == "disk_full"


def raising(failures: list[Exception]) -> Callable[..., Any]:
    def work(*_: Any, **__: Any) -> None:
        raise failures.pop(0)

    return work


def test_what_came_to_nothing_within_its_time_is_not_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Exception] = [SshTimeout("nothing within 300 s"), *(SshFailed("lost") for _ in range(9))]
    monkeypatch.setattr(HostAgent, "clear_up", raising(left))
    scene.leave(LOST)
    assert len(left) == 9


def test_a_start_is_tried_again_for_a_while_that_grows_with_progress_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    now = [0.0]

    def slow(self: HostAgent, talk: Talk) -> None:
        now[0] += 150.0  # longer than heartbeat_timeout_s
        tries.append(now[0])
        if len(tries) == 2:
            self.progress += 1
        raise SshFailed("The connection was lost")

    monkeypatch.setattr(HostAgent, "open", slow)
    talk = Talk()
    monkeypatch.setattr(talk, "wait", lambda seconds: False)
    with pytest.raises(SshFailed):
        SshRun(scene.agent, scene.agent.job, scene.sink, clock=lambda: now[0])._open(talk)
    assert len(tries) == 3


def left_run(scene: Scene, name: str, **note: Any) -> Path:
    folder = scene.agent.job.folder.parent / name
    folder.mkdir()
    outcome = {"status": "error", "error_code": "heartbeat_lost"}
    usual = {"cleared": False, "outcome": outcome, "host": "gpu1", **note}
    write_note(folder, RemoteNote(attempt=2, remote_dir="/r", code="c", python="/py", socket="", **usual))
    return folder


def test_what_another_run_has_left_is_cleared_up_at_the_next_occasion(scene: Scene) -> None:
    folder = left_run(scene, "r0", keep=True)
    scene.leave(replace(LOST, error_code="killed"))
    behind = scene.host.asked[-1]
    assert (behind["do"], behind["run_id"], behind["attempt"], behind["keep"]) == ("clear_up", "r0", 2, True)
    assert behind["remote_dir"] == "/r"
    note = read_note(folder)
    assert note is not None
    assert note.cleared


def test_a_run_whose_slurm_job_could_not_be_cancelled_is_cleared_up_again(scene: Scene) -> None:
    folder = left_run(scene, "r0")
    scene.host.cleared["goes_on"] = True
    scene.leave(replace(LOST, error_code="killed"))
    own, others = scene.agent.noted.note, read_note(folder)
    assert own is not None
    assert others is not None
    assert (own.cleared, others.cleared) == (False, False)
    scene.host.cleared["goes_on"] = False
    scene.leave(replace(LOST, error_code="killed"))
    assert scene.agent.noted.note is not None
    assert scene.agent.noted.note.cleared


def test_runs_that_go_on_or_are_seen_to_or_are_elsewhere_are_left_alone(scene: Scene) -> None:
    left_run(scene, "goes-on", outcome=None)
    left_run(scene, "cleared", cleared=True)
    left_run(scene, "elsewhere", host="gpu2")
    seen_to = left_run(scene, "seen-to")
    runs = seen_to.parent
    with followed_here(seen_to):
        assert uncleared(runs, "gpu1", but="r1") == []
    assert [folder.name for folder, _ in uncleared(runs, "gpu1", but="r1")] == ["seen-to"]


def test_no_run_clears_up_behind_more_than_a_few_others(scene: Scene) -> None:
    for number in range(5):
        left_run(scene, f"old-{number}")
    scene.leave(replace(LOST, error_code="killed"))
    asked = [request["run_id"] for request in scene.host.asked]
    own = asked.index("r1")
    others = [run_id for run_id in asked[own + 1 :] if run_id != "r1"]
    assert len(set(others)) == MOST_UNCLEARED


def test_each_gets_its_turn_where_a_few_cannot_be_cleared(scene: Scene) -> None:
    for number in range(5):
        runs = left_run(scene, f"old-{number}").parent
    seen: set[str] = set()
    for _ in range(1000):
        seen |= {path.name for path, _ in uncleared(runs, "gpu1", but="r1")}
        if len(seen) == 5:
            break
    assert len(seen) == 5


def test_a_run_that_nobody_follows_is_cancelled_as_one_that_is_followed(scene: Scene) -> None:
    assert scene.run().cancelled() is None
    assert scene.heard == ["ended", "stop", "clear_up"]
    note = read_note(scene.agent.job.folder)
    assert note is not None
    assert note.cleared


def test_where_its_host_is_away_the_next_run_there_finds_it(scene: Scene) -> None:
    scene.host.refuses_logins = SshFailed("ssh to gpu1 failed: Connection refused")
    assert scene.run().cancelled() is scene.host.refuses_logins
    folder = scene.agent.job.folder
    [(found, note)] = uncleared(folder.parent, "gpu1", but="another")
    assert found == folder
    assert note.outcome is not None
    assert note.outcome["status"] == "cancelled"
    assert not is_followed(folder)
