"""Following a run by the mirror of its job folder: events, notes, cancel, silence, and the end."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from potato_ray.backends.agent import AgentBackend, AgentSettings
from potato_ray.backends.agent_following import IDLE_S, AgentFollowing
from potato_ray.backends.base import Directive, Job, Outcome
from potato_ray.backends.mirror_signs import Silence
from potato_ray.job.folder import write_json
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.registry.reading import RegistryReader

RESULT = {"event": "result", "metrics": {}, "label_order": [], "n_predictions": 3}
CANCELLED = {"exit": {"code": 4, "signal": None, "reason": "cancelled"}}
ENDED_WELL = {"exit": {"code": 0, "signal": None, "peak_rss_mb": 90.0}, "artifact_uri": "ws:/w/artifacts"}


WALL = 1772357400.0
"""What the wall clock says at second 0."""


class Mirror:
    """A mirror folder, a clock that sleeping moves, and what happens at which second."""

    def __init__(self, path: Path) -> None:
        self.folder = MirrorFolder(path)
        self.folder.artifacts.mkdir(parents=True)
        spec = JobSpec("r", 1, "sklearn-text", (), {}, limits=Limits(max_wall_s=600.0, grace_s=20.0))
        write_json(self.folder.spec, spec.as_json())
        self.now = 0.0
        self.stride = 0.0
        self.plan: list[tuple[float, Callable[[], object]]] = []
        self.events: list[Mapping[str, Any]] = []
        self.notes: list[Mapping[str, Any]] = []
        self.directive = Directive()

    def at(self, second: float, happening: Callable[[], object]) -> None:
        self.plan.append((second, happening))

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, self.stride)
        assert self.now < 10_000, "it follows without end"
        for due in [each for each in self.plan if each[0] <= self.now]:
            self.plan.remove(due)
            due[1]()

    def sink(
        self,
        events: Sequence[Mapping[str, Any]],
        first_seq: int,
        notes: Sequence[Mapping[str, Any]] = (),
    ) -> Directive:
        self.events += events
        self.notes += notes
        return self.directive

    def say(self, event: Mapping[str, Any]) -> None:
        with self.folder.events.open("a") as handle:
            handle.write(json.dumps(event) + "\n")
        self.beat()

    def note(self, *notes: Mapping[str, Any]) -> None:
        with self.folder.notes.open("a") as handle:
            handle.writelines(json.dumps(note) + "\n" for note in notes)
        self.beat()

    def beat(self, working: bool | None = None) -> None:
        self.folder.beat(working)
        os.utime(self.folder.heartbeat, ns=(0, int((self.now + 1) * 1e9)))

    def end(self, body: Mapping[str, Any]) -> None:
        write_json(self.folder.path / "result.json", {"attempt": 1, **body})

    def follow(self, first_seq: int = 0, wall_clock: Callable[[], float] | None = None) -> Outcome:
        job = Job("r", 1, self.folder.path, first_seq)
        return AgentFollowing(
            job,
            self.sink,
            name="ws",
            heartbeat_timeout_s=120.0,
            clock=lambda: self.now,
            sleep=self.sleep,
            wall_clock=wall_clock or (lambda: self.now + WALL),
        ).run()

    def beats(self, until: int, working: bool | None = None) -> None:
        """The agent reports each ten seconds until then."""
        for second in range(0, until, 10):
            self.at(float(second), lambda: self.beat(working))

    def told(self, kind: str, key: str) -> list[str]:
        return [str(note[key]) for note in self.notes if note["kind"] == kind]


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "r")


def test_a_run_that_ends_well_is_a_success_that_says_where_its_model_lies(mirror: Mirror) -> None:
    mirror.at(1.0, lambda: mirror.say({"event": "status", "phase": "fitting", "step": "fitting"}))
    mirror.at(2.0, lambda: (mirror.say(RESULT), mirror.end(ENDED_WELL)))
    outcome = mirror.follow()
    assert (outcome.status, outcome.artifact_uri, outcome.peak_rss_mb) == ("success", "ws:/w/artifacts", 90.0)
    assert [event["event"] for event in mirror.events] == ["status", "result"]


def test_notes_of_the_agent_are_passed_on(mirror: Mirror) -> None:
    notes = mirror.folder.path / "notes.jsonl"
    step = {"kind": "step", "step": "downloading the bundle, 40 of 200 MB"}
    mirror.at(1.0, lambda: notes.write_text(json.dumps(step) + '\nno JSON\n[]\n{"kind": "st'))
    mirror.at(2.0, lambda: mirror.end({"exit": None}))
    mirror.follow()
    assert mirror.notes == [step]


def test_an_agent_that_is_silent_is_late_first_and_lost_then(mirror: Mirror) -> None:
    mirror.folder.note_start(0.0)
    mirror.at(50.0, mirror.beat)
    outcome = mirror.follow()
    assert outcome.error_code == "heartbeat_lost"
    assert outcome.message == "No word from the agent on ws for 120 seconds."
    assert 169.0 < mirror.now < 172.0
    assert mirror.told("late", "step")[0] == "no word from the agent on ws for 30 s; lost after 120 s"
    assert mirror.told("heard", "message") == ["The agent on ws is heard again."]
    assert [note["kind"] for note in mirror.notes[:3]] == ["late", "late", "heard"]


def test_one_that_may_have_been_late_before_we_followed_is_said_to_be_heard_once(mirror: Mirror) -> None:
    mirror.beats(100)
    mirror.at(90.0, lambda: mirror.end({"exit": None}))
    mirror.follow(first_seq=1)
    assert mirror.notes == [{"kind": "heard", "message": "The agent on ws is heard again."}]


def test_an_agent_that_is_lost_before_its_worker_started_leaves_the_run_to_another(mirror: Mirror) -> None:
    mirror.at(5.0, lambda: mirror.note({"kind": "step", "step": "downloading the bundle, 4 of 200 MB"}))
    outcome = mirror.follow()
    assert (outcome.status, outcome.error_code) == ("unstarted", "heartbeat_lost")


@pytest.mark.parametrize("word", ["an event", "a heartbeat"])
def test_a_worker_of_which_one_word_has_come_has_started(mirror: Mirror, word: str) -> None:
    if word == "an event":
        mirror.say({"event": "status", "step": "fitting"})
    else:
        mirror.folder.note_start(7.0)
    assert mirror.follow().status == "error"


def test_a_cancel_is_left_for_the_agent_and_holds_after_the_grace(mirror: Mirror) -> None:
    mirror.directive = Directive(cancel=True, grace_s=5.0)
    assert mirror.follow().status == "cancelled"
    assert json.loads(mirror.folder.cancel.read_text()) == {"reason": "cancelled", "grace_s": 5.0}
    assert 5.0 <= mirror.now < 6.0


def test_a_worker_that_stopped_on_request_is_cancelled_at_once(mirror: Mirror) -> None:
    mirror.directive = Directive(cancel=True, grace_s=500.0)
    mirror.at(1.0, lambda: mirror.end(CANCELLED))
    assert mirror.follow().status == "cancelled"
    assert mirror.now < 2.0


def test_what_the_agent_could_not_do_is_told_in_its_words(mirror: Mirror) -> None:
    failure = {"code": "backend_failed", "message": "The disk is full.", "next_step": "Free space."}
    mirror.end({"exit": None, "failure": failure})
    outcome = mirror.follow()
    assert (outcome.status, outcome.error_code, outcome.message, outcome.next_step) == (
        "error",
        "backend_failed",
        "The disk is full.",
        "Free space.",
    )


def test_a_launcher_that_was_killed_over_there_is_told(mirror: Mirror) -> None:
    mirror.end({"exit": None, "stderr_tail": "the last words"})
    outcome = mirror.follow()
    assert (outcome.error_code, outcome.evidence) == ("killed", "the last words")


def test_a_run_whose_limit_nobody_kept_over_there_ends_all_the_same(mirror: Mirror) -> None:
    mirror.folder.note_start(WALL)
    mirror.beats(2000, working=True)
    outcome = mirror.follow()
    assert outcome.error_code == "wall_clock"
    assert 650.0 < mirror.now < 652.0


def test_the_limit_counts_from_the_workers_start_whoever_followed_it_then(mirror: Mirror) -> None:
    mirror.folder.note_start(WALL - 600.0)
    mirror.beats(2000, working=True)
    assert mirror.follow(first_seq=1).error_code == "wall_clock"
    assert 50.0 < mirror.now < 52.0


def test_the_limit_is_none_for_an_agent_that_brings_the_end_home(mirror: Mirror) -> None:
    mirror.folder.note_start(WALL)
    mirror.beats(2000, working=False)
    mirror.at(1900.0, lambda: mirror.end(CANCELLED))
    assert mirror.follow().status == "cancelled"


def test_a_clock_that_is_set_ends_no_run(mirror: Mirror) -> None:
    mirror.folder.note_start(WALL)
    mirror.beats(700, working=True)
    later = iter([WALL])
    mirror.at(600.0, lambda: mirror.end(CANCELLED))
    assert mirror.follow(wall_clock=lambda: next(later, WALL + 86_400.0)).status == "cancelled"


def test_an_agent_that_reports_and_does_nothing_leaves_the_run_to_another(mirror: Mirror) -> None:
    mirror.stride = 1.0
    mirror.beats(5000, working=False)
    outcome = mirror.follow()
    assert (outcome.status, outcome.error_code) == ("unstarted", "backend_failed")
    assert outcome.message == "The agent on ws has done nothing for the run for 60 minutes."
    assert IDLE_S <= mirror.now < IDLE_S + 20.0


def test_a_bundle_that_comes_nearer_is_work(mirror: Mirror) -> None:
    mirror.stride = 1.0
    for second in (1000, 4000, 7000):
        mirror.at(float(second), lambda: mirror.note({"kind": "step", "step": f"at {mirror.now:.0f}"}))
    mirror.beats(7500, working=False)
    mirror.at(7500.0, lambda: mirror.end(CANCELLED))
    assert mirror.follow().status == "cancelled"


def test_a_worker_without_words_is_no_idle_agent_nor_is_one_whose_worker_has_just_ended(
    mirror: Mirror,
) -> None:
    mirror.stride = 1.0
    mirror.beats(5000, working=True)
    mirror.at(5000.0, lambda: mirror.beat(working=False))
    mirror.at(5050.0, lambda: mirror.end(CANCELLED))
    assert mirror.follow().status == "cancelled"


def test_one_that_is_taken_up_again_sends_only_what_is_new_and_knows_the_end(mirror: Mirror) -> None:
    mirror.say({"event": "status", "phase": "fitting", "step": "fitting"})
    mirror.say(RESULT)
    mirror.end(ENDED_WELL)
    assert mirror.follow(first_seq=2).status == "success"
    assert mirror.events == []


@pytest.mark.parametrize(
    "whose", [{"attempt": 2}, {"lease_sha256": "another"}], ids=["of another attempt", "of another lease"]
)
def test_the_end_that_another_agent_told_is_none(mirror: Mirror, whose: dict[str, Any]) -> None:
    mirror.folder.write_claim(ClaimNote(1, "ours"))
    mirror.end({**CANCELLED, "lease_sha256": "ours", **whose})
    mirror.at(5.0, lambda: mirror.end({"exit": None, "lease_sha256": "ours"}))
    assert mirror.follow().error_code == "killed"
    assert mirror.now >= 5.0


def test_a_stale_sink_lets_go_of_the_run(mirror: Mirror) -> None:
    mirror.directive = Directive(stale=True)
    assert mirror.follow().status == "stale"


def test_time_before_we_looked_is_no_silence(tmp_path: Path) -> None:
    beat = tmp_path / "heartbeat"
    beat.touch()
    os.utime(beat, (1.0, 1.0))
    now = 1000.0
    silence = Silence(beat, lambda: now)
    assert silence.seconds() == 0.0


def test_a_folder_that_is_removed_ends_the_run_with_a_sentence(mirror: Mirror) -> None:
    mirror.at(5.0, lambda: shutil.rmtree(mirror.folder.path))
    outcome = mirror.follow()
    assert (outcome.status, outcome.error_code) == ("error", "backend_failed")
    assert outcome.message == "The run's folder was removed while an agent had the run in hand."
    assert outcome.next_step
    assert mirror.now < 6.0


def test_a_cancelled_run_whose_folder_is_removed_is_cancelled_at_once(mirror: Mirror) -> None:
    mirror.directive = Directive(cancel=True, grace_s=500.0)
    mirror.at(5.0, lambda: shutil.rmtree(mirror.folder.path))
    assert mirror.follow().status == "cancelled"
    assert mirror.now < 6.0


# --- whether a worker may live over there ---------------------------------------------------------

AT_WORK = {"claim": "{}", "heartbeat": "working"}


def may_live(path: Path, silent_s: float = 0.0, lost_after_s: float = 300.0, **files: str) -> bool:
    """What the backend says of a mirror with these files, whose agent has been silent for so long."""
    folder = MirrorFolder(path)
    folder.path.mkdir(exist_ok=True)
    limits = Limits(grace_s=20.0, lost_after_s=lost_after_s)
    write_json(folder.spec, JobSpec("r", 1, "sklearn-text", (), {}, limits=limits).as_json())
    for name, text in files.items():
        getattr(folder, name).write_text(text)
    touched_at = folder.heartbeat.stat().st_mtime if folder.heartbeat.exists() else 0.0
    settings = AgentSettings("ws", RegistryReader(path / "registry.sqlite"))
    return AgentBackend("ws", settings, wall_clock=lambda: touched_at + silent_s).alive(path)


def test_a_worker_lives_where_its_agent_said_so(tmp_path: Path) -> None:
    assert may_live(tmp_path / "r", **AT_WORK)


@pytest.mark.parametrize(
    "change",
    [{"heartbeat": "waiting"}, {"heartbeat": ""}, {"result": "{}"}],
    ids=["no worker yet", "nothing said", "the end is told"],
)
def test_none_lives_before_a_word_of_it_and_after_its_end(tmp_path: Path, change: dict[str, str]) -> None:
    assert not may_live(tmp_path / "r", **{**AT_WORK, **change})


@pytest.mark.parametrize("missing", sorted(AT_WORK))
def test_none_lives_where_nobody_has_the_run_in_hand(tmp_path: Path, missing: str) -> None:
    assert not may_live(tmp_path / "r", **{name: AT_WORK[name] for name in AT_WORK if name != missing})


@pytest.mark.parametrize("lost_after_s", [300.0, 900.0])
def test_none_lives_after_the_silence_in_which_agent_and_launcher_give_up(
    tmp_path: Path, lost_after_s: float
) -> None:
    assert may_live(tmp_path / "r", lost_after_s + 19.0, lost_after_s, **AT_WORK)
    assert not may_live(tmp_path / "r", lost_after_s + 21.0, lost_after_s, **AT_WORK)
