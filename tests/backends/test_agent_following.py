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
from potato_ray.backends.agent_following import AgentFollowing, NoteReader, Silence
from potato_ray.backends.base import Directive, Job, Outcome
from potato_ray.job.folder import write_json
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.reading import RegistryReader

RESULT = {"event": "result", "metrics": {}, "label_order": [], "n_predictions": 3}
ENDED_WELL = {"exit": {"code": 0, "signal": None, "peak_rss_mb": 90.0}, "artifact_uri": "ws:/w/artifacts"}


class Mirror:
    """A mirror folder, a clock that sleeping moves, and what happens at which second."""

    def __init__(self, path: Path) -> None:
        self.folder = MirrorFolder(path)
        self.folder.artifacts.mkdir(parents=True)
        spec = JobSpec("r", 1, "sklearn-text", (), {}, limits=Limits(max_wall_s=600.0, grace_s=20.0))
        write_json(self.folder.spec, spec.as_json())
        self.now = 0.0
        self.plan: list[tuple[float, Callable[[], object]]] = []
        self.events: list[Mapping[str, Any]] = []
        self.notes: list[Mapping[str, Any]] = []
        self.directive = Directive()

    def at(self, second: float, happening: Callable[[], object]) -> None:
        self.plan.append((second, happening))

    def sleep(self, seconds: float) -> None:
        self.now += seconds
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

    def beat(self) -> None:
        self.folder.heartbeat.touch()
        os.utime(self.folder.heartbeat, ns=(0, int((self.now + 1) * 1e9)))

    def end(self, body: Mapping[str, Any]) -> None:
        write_json(self.folder.path / "result.json", dict(body))

    def follow(self, first_seq: int = 0) -> Outcome:
        job = Job("r", 1, self.folder.path, first_seq)
        return AgentFollowing(
            job, self.sink, name="ws", heartbeat_timeout_s=120.0, clock=lambda: self.now, sleep=self.sleep
        ).run()

    @property
    def steps(self) -> list[str]:
        return [str(note["step"]) for note in self.notes if note["kind"] == "step"]


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
    assert mirror.steps[0].startswith("no word from the agent on ws for 30 s; lost after 120 s")
    assert "the agent on ws is heard again" in mirror.steps


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
    mirror.at(1.0, lambda: mirror.end({"exit": {"code": 4, "signal": None, "reason": "cancelled"}}))
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
    mirror.say({"event": "status", "phase": "fitting", "step": "fitting"})
    for second in range(0, 2000, 10):
        mirror.at(float(second), mirror.beat)
    outcome = mirror.follow()
    assert outcome.error_code == "wall_clock"
    assert 640.0 < mirror.now < 660.0


def test_one_that_is_taken_up_again_sends_only_what_is_new_and_knows_the_end(mirror: Mirror) -> None:
    mirror.say({"event": "status", "phase": "fitting", "step": "fitting"})
    mirror.say(RESULT)
    mirror.end(ENDED_WELL)
    assert mirror.follow(first_seq=2).status == "success"
    assert mirror.events == []


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


def test_notes_that_were_passed_on_before_are_not_passed_on_again(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"kind": "log", "message": "old"}\n')
    reader = NoteReader(path, skip=True)
    with path.open("a") as handle:
        handle.write('{"kind": "log", "message": "new"}\n')
    assert [note["message"] for note in reader.poll()] == ["new"]


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
