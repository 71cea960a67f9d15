"""A worker as a SLURM job, from an agent's side: submitted, watched, cancelled, explained."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from clocks import Clock
from fake_slurm import DOWN, FakeSlurm

from potato_ray.agent.apart import Interrupted
from potato_ray.agent.held_job import Failure, HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.launching import NotLaunched
from potato_ray.agent.settings import Settings
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.place import SETTLE_S, SlurmPlace
from potato_ray.agent.slurm.submission import Submission
from potato_ray.agent.slurm.watch import JobWatch
from potato_ray.job.folder import Exit, Processes
from potato_ray.job.follow import ALIVE, ENDED, GONE, STARTING
from potato_ray.job.processes import identify

ID = "4242"
CODE = Path("/shared/code")
PARCEL = {"sha256": "0" * 64, "bytes": 1}
JOB = {"run_id": "run-7", "attempt": 1, "spec": {}, "bundle": PARCEL, "code": PARCEL}
AWAY = f"slurm_load_jobs error: {DOWN}\n"
SUCCESS = Exit(0, None)
TERMINATED = Exit(-1, None, "terminated")


class LoginNode:
    """An agent's login node and the job that it holds; it is what tells people, too. Time is `clock`'s."""

    def __init__(self, tmp_path: Path) -> None:
        self.fake = FakeSlurm(tmp_path / "fake")
        self.clock = Clock()
        self.steps: list[str] = []
        self.lines: list[str] = []
        self.is_unwanted = False
        (tmp_path / "jobs").mkdir()
        self.held = HeldJob.create(tmp_path / "jobs", JobDocument.from_json(JOB), "lease", "server", "far")
        self.folder = self.held.folder
        self._workdir = tmp_path
        self._watches: list[JobWatch] = []

    def step(self, words: str) -> None:
        self.steps.append(words)

    def log(self, words: str, level: str = "info") -> None:
        self.lines.append(words if level == "info" else f"{level}: {words}")

    def place(self) -> SlurmPlace:
        """That of an agent which has just been started; its watch turns when `turn` is called."""
        # Without an interval, each look asks.
        keys = SlurmKeys(mem="1G", poll_interval_s=0.0, env=self.fake.env)
        settings = Settings("server", "far", self._workdir, sys.executable, host="login1", slurm=keys)
        return SlurmPlace(
            self.held,
            settings,
            keys,
            self,
            lambda: self.is_unwanted,
            clock=self.clock,
            sleep=self.clock.sleep,
            follow=self._watches.append,
        )

    def submitted(self, state: str = "", reason: str = "None", nodes: str = "") -> SlurmPlace:
        """One with a job at SLURM, which was looked at once."""
        place = self.place()
        place.start(CODE)
        self.turn(place, state, reason, nodes)
        return place

    def turn(self, place: SlurmPlace, state: str = "", reason: str = "None", nodes: str = "") -> str:
        """How the place says the job stands, after a look at it in that state."""
        if state:
            self.fake.job(ID, state, reason, nodes)
        place.state()
        self._watches[-1].turn()
        return place.state()

    def begins(self) -> None:
        """The launcher says which processes it has started."""
        process = identify(os.getpid())
        assert process is not None
        self.folder.write_processes(Processes(process, process, self.clock.now))

    def order_of(self, *names: str) -> list[str]:
        """Which of these commands were run last, the latest at the end."""
        times = {name: (self.fake.folder / f"{name}.calls.jsonl").stat().st_mtime_ns for name in names}
        return sorted(names, key=times.__getitem__)

    @property
    def orders(self) -> list[list[str]]:
        """What scancel was told."""
        return self.fake.arguments("scancel")


@pytest.fixture
def node(tmp_path: Path) -> LoginNode:
    return LoginNode(tmp_path)


# How it stands


def test_a_job_is_submitted_and_told_with_what_it_asks_for(node: LoginNode) -> None:
    place = node.place()
    assert not place.has_started()
    place.start(CODE)
    assert place.has_started()
    assert node.lines == [f"Submitted SLURM job {ID}: --mem=1G"]
    assert node.steps == ["submitting the job to SLURM", f"waiting for SLURM job {ID}: submitted"]
    assert f"{CODE}/potato_ray/job/start.py launcher {node.folder.path}" in (
        node.folder.path / "job.sh"
    ).read_text("utf-8")


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING", "REQUEUE_HOLD"])
def test_a_job_without_a_node_is_starting(node: LoginNode, state: str) -> None:
    place = node.submitted(state)
    assert place.state() == STARTING


def test_it_is_starting_until_its_launcher_speaks_and_alive_then(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    assert place.state() == STARTING
    node.begins()
    assert place.state() == ALIVE


def test_a_worker_that_began_since_the_last_look_is_alive(node: LoginNode) -> None:
    place = node.submitted("PENDING")
    node.begins()
    assert place.state() == ALIVE


def test_a_job_that_is_suspended_lives(node: LoginNode) -> None:
    node.begins()
    place = node.submitted("SUSPENDED", nodes="n1")
    assert place.state() == ALIVE


def test_it_has_ended_when_its_exit_is_there_whatever_slurm_says(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.folder.write_exit(SUCCESS)
    assert place.state() == ENDED


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT", "CANCELLED"])
def test_a_job_that_slurm_has_ended_is_gone_once_its_exit_has_had_time_to_come(
    node: LoginNode, state: str
) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.begins()
    assert node.turn(place, state, nodes="n1") == ALIVE
    node.clock.sleep(SETTLE_S - 1.0)
    assert place.state() == ALIVE
    node.clock.sleep(1.0)
    assert place.state() == GONE


def test_an_exit_that_comes_late_is_the_end(node: LoginNode) -> None:
    place = node.submitted("COMPLETED", nodes="n1")
    node.clock.sleep(SETTLE_S - 1.0)
    node.folder.write_exit(SUCCESS)
    assert place.state() == ENDED


def test_a_job_that_slurm_does_not_know_is_gone_after_the_same_time(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.job(ID)
    for _ in range(2):  # one look without it is not believed
        assert node.turn(place) in (STARTING, ALIVE)
    assert place.state() == ALIVE
    node.clock.sleep(SETTLE_S)
    assert place.state() == GONE


def test_a_job_that_is_seen_again_has_its_time_anew(node: LoginNode) -> None:
    node.begins()
    place = node.submitted("COMPLETED", nodes="n1")
    node.clock.sleep(SETTLE_S - 1.0)
    assert node.turn(place, "RUNNING", nodes="n1") == ALIVE
    assert node.turn(place, "COMPLETED", nodes="n1") == ALIVE
    node.clock.sleep(1.0)
    assert place.state() == ALIVE


def test_a_job_that_is_back_in_the_queue_after_its_worker_ran_is_gone(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.begins()
    assert node.turn(place, "PENDING", "BeginTime") == GONE


def test_a_job_that_was_requeued_before_its_worker_began_starts_again(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    assert node.turn(place, "PENDING", "BeginTime") == STARTING


def test_a_slurm_that_is_away_changes_nothing(node: LoginNode) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    for _ in range(3):
        node.fake.answers("squeue", code=1, err=AWAY)
        node.clock.sleep(SETTLE_S)
        assert node.turn(place) == ALIVE


def test_the_next_agent_takes_the_job_up_where_it_is(node: LoginNode) -> None:
    node.submitted("RUNNING", nodes="n1").close()
    node.begins()
    place = node.place()
    assert place.has_started()
    assert place.state() == ALIVE
    assert node.turn(place) == ALIVE
    assert len(node.fake.calls("sbatch")) == 1


# Its start is broken off, or fails


def test_a_submission_that_is_broken_off_is_cancelled_by_its_name(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=f"sbatch: error: {DOWN}\n", submits=True)
    node.is_unwanted = True
    place = node.place()
    with pytest.raises(Interrupted):
        place.start(CODE)
    place.end()
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]]


def test_an_sbatch_that_answers_after_that_has_its_job_cancelled(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.agent.apart.PART_S", 10.0)
    node.fake.answers("sbatch", delay_s=0.3, out=f"{ID}\n", submits=True)
    node.is_unwanted = True
    node.place().start(CODE)
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]]


def test_a_job_whose_id_cannot_be_noted_is_cancelled(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(submission: Submission, folder: Path) -> None:
        if submission.job_id:
            raise OSError("no space")
        write(submission, folder)

    write = Submission.write
    monkeypatch.setattr(Submission, "write", full)
    with pytest.raises(OSError, match="no space"):
        node.place().start(CODE)
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]]


def test_a_job_that_slurm_refused_is_none_that_lives(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err="sbatch: error: invalid partition specified: x\n")
    place = node.place()
    with pytest.raises(NotLaunched):
        place.start(CODE)
    assert place.state() == STARTING
    assert not place.has_started()
    assert place.failure() is None


# Cancelling


def test_a_job_that_waits_is_cancelled_at_once(node: LoginNode) -> None:
    place = node.submitted("PENDING", "Priority")
    place.cancel("cancelled", 20.0)
    assert node.folder.cancel.exists()
    node.turn(place)
    assert node.orders == [[ID]]
    assert node.turn(place, "CANCELLED", "Priority") == GONE
    place.end()
    end = node.folder.read_exit()
    assert end is not None
    assert (end.reason, end.detail) == ("cancelled", "It was cancelled before SLURM started it.")
    assert place.failure() is None


def test_a_job_that_runs_is_told_first_and_cancelled_after_its_grace(node: LoginNode) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    for after_s, n_orders in ((0.0, 1), (19.0, 1), (1.0, 2)):
        node.clock.sleep(after_s)
        place.cancel("cancelled", 20.0)
        node.turn(place)
        assert len(node.orders) == n_orders
    assert node.orders == [["--full", "--signal=TERM", ID], [ID]]


def test_the_request_lies_in_the_folder_before_slurm_sends_a_signal(node: LoginNode) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    assert node.folder.cancel.exists()
    assert node.orders == []


def test_a_cancel_is_tried_again_while_slurm_is_away(node: LoginNode) -> None:
    place = node.submitted("PENDING")
    place.cancel("cancelled", 20.0)
    node.fake.answers("squeue", code=1, err=AWAY)
    node.fake.answers("scancel", code=8, err=f"scancel: error: Kill job error on job id {ID}: {DOWN}\n")
    for n_orders in (0, 1, 2):
        node.turn(place)
        assert len(node.orders) == n_orders
    assert node.orders == [[ID], [ID]]


def test_an_order_that_slurm_does_not_take_is_told_once_and_given_again(node: LoginNode) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    refusal = f"scancel: error: Kill job error on job id {ID}: Access/permission denied\n"
    for _ in range(2):
        node.fake.answers("scancel", code=210, err=refusal)
    for _ in range(4):
        node.turn(place)
    assert node.orders == [["--full", "--signal=TERM", ID]] * 3
    said = [line for line in node.lines if "Access/permission denied" in line]
    assert len(said) == 1
    assert said[0].startswith(f"warning: SLURM job {ID} was not cancelled")


def test_nothing_is_ordered_of_a_job_that_has_ended(node: LoginNode) -> None:
    place = node.submitted("COMPLETED", nodes="n1")
    place.cancel("cancelled", 0.0)
    node.turn(place)
    assert node.orders == []


def test_a_full_disk_does_not_keep_a_job_from_being_cancelled(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    place = node.submitted("PENDING")
    monkeypatch.setattr("potato_ray.job.folder.JobFolder.request_cancel", full)
    place.cancel("cancelled", 20.0)
    node.turn(place)
    assert node.orders == [[ID]]


def test_what_is_left_is_ended_by_name_and_what_kept_slurm_from_it_is_told(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.answers("scancel", code=8, err=f"scancel: error: {DOWN}\n")
    place.end()
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]]
    assert node.lines[-1].startswith(f"warning: SLURM job {ID} was not cancelled: SLURM does not answer")
    assert not node.folder.exit.exists()


def test_a_folder_that_is_gone_keeps_nobody_from_ending_the_job(node: LoginNode) -> None:
    place = node.submitted("PENDING")
    place.cancel("cancelled", 20.0)
    node.held.discard()
    place.end()
    assert len(node.orders) == 1
    assert "could not be written" in node.lines[-1]


# Why it has ended


def shown(state: str, **more: str) -> str:
    fields = {"JobState": state, "ExitCode": "0:0", "NodeList": "n1", **more}
    return " ".join([f"JobId={ID}", *(f"{name}={text}" for name, text in fields.items())]) + "\n"


@pytest.mark.parametrize(
    ("says", "end", "words"),
    [
        (shown("TIMEOUT", Reason="TimeLimit"), None, "it reached its time limit on n1"),
        (shown("TIMEOUT", Reason="TimeLimit"), TERMINATED, "it reached its time limit on n1"),
        (shown("NODE_FAIL", Reason="NodeDown"), None, "its node n1 failed"),
        (shown("PREEMPTED"), None, "it was preempted by a job that comes first on n1"),
        (shown("OUT_OF_MEMORY"), Exit(None, 9), "it needed more memory than SLURM gave it on n1"),
        (shown("CANCELLED"), None, "it was cancelled from outside, by scancel or an administrator on n1"),
    ],
)
def test_a_job_that_slurm_ended_says_so(node: LoginNode, says: str, end: Exit | None, words: str) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    if end is not None:
        node.folder.write_exit(end)
    node.fake.shows(says)
    begin = f"SLURM job {ID} ended before the worker finished: "
    assert message(place.failure()) == f"{begin}{words}."


def message(failure: Failure | None) -> str:
    assert failure is not None
    assert failure.code == "slurm_failed"
    assert failure.next_step
    return failure.message


@pytest.mark.parametrize("end", [SUCCESS, Exit(1, None), Exit(None, 9, "out_of_memory")])
def test_slurm_is_not_asked_where_the_worker_has_said_its_end(node: LoginNode, end: Exit) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.folder.write_exit(end)
    assert place.failure() is None
    assert node.fake.calls("scontrol") == []


def test_slurm_is_not_asked_where_the_end_was_ours(node: LoginNode) -> None:
    node.submitted("RUNNING", nodes="n1").cancel("cancelled", 20.0)
    node.folder.write_exit(TERMINATED)
    assert node.place().failure() is None  # nor by the agent after the one that cancelled it
    assert node.fake.calls("scontrol") == []


def test_a_job_that_is_about_to_end_is_asked_about_until_it_has(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.shows(shown("COMPLETING"))
    node.clock.after(3.0, lambda: node.fake.shows(shown("PREEMPTED")))
    assert "preempted" in message(place.failure())
    assert len(node.fake.calls("scontrol")) == 4


def test_a_slurm_that_is_away_is_asked_again(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.shows(shown("TIMEOUT"))
    for _ in range(2):
        node.fake.answers("scontrol", code=1, err=AWAY)
    assert "its time limit" in message(place.failure())
    assert node.steps[-1] == f"asking how SLURM job {ID} ended: SLURM does not answer scontrol on login1."


def test_one_that_stays_away_is_not_asked_for_ever(node: LoginNode) -> None:
    place = node.submitted("TIMEOUT", nodes="n1")
    node.clock.after(5.0, lambda: setattr(node, "is_unwanted", True))
    for _ in range(10):
        node.fake.answers("scontrol", code=1, err=AWAY)
    assert "its time limit" in message(place.failure())  # as squeue has said
    assert len(node.fake.calls("scontrol")) == 6


def test_a_job_back_in_the_queue_is_asked_about_before_it_is_cancelled(node: LoginNode) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.begins()
    assert node.turn(place, "PENDING", "BeginTime") == GONE
    node.fake.shows(shown("PENDING", Reason="BeginTime", Restarts="1"))
    place.end()
    node.fake.shows(shown("CANCELLED", Restarts="1"))  # what our own cancel has made of it
    assert node.order_of("scancel", "scontrol") == ["scontrol", "scancel"]
    assert "was put back into the queue" in message(place.failure())


# What people are told


def test_what_a_job_waits_for_is_told_once_until_it_changes(node: LoginNode) -> None:
    place = node.submitted("PENDING", "Priority")
    for state, reason, nodes in (("PENDING", "Priority", ""), ("RUNNING", "None", "n1")):
        for _ in range(3):
            node.turn(place, state, reason, nodes)
    assert node.lines[1:] == [f"SLURM job {ID}: PENDING (Priority)", f"SLURM job {ID}: RUNNING on n1"]
    assert node.steps[2:] == [f"waiting for {line}" for line in node.lines[1:]]


def test_the_step_line_is_the_workers_own_once_it_has_begun(node: LoginNode) -> None:
    place = node.submitted("PENDING", "Priority")
    n_steps = len(node.steps)
    node.begins()
    node.turn(place, "RUNNING", nodes="n1")
    node.fake.answers("squeue", code=1, err=AWAY)
    node.turn(place)
    node.turn(place)
    assert len(node.steps) == n_steps
    assert f"SLURM job {ID}: RUNNING on n1" in node.lines


def test_that_slurm_is_away_is_told_once_and_so_is_that_it_is_back(node: LoginNode) -> None:
    place = node.submitted("PENDING", "Priority")
    before = node.steps[-1]
    for _ in range(3):
        node.fake.answers("squeue", code=1, err=AWAY)
        node.turn(place)
        node.clock.sleep(10.0)
    assert node.steps[-1] == "SLURM does not answer squeue on login1; it is asked again"
    node.turn(place)
    away, back = node.lines[-2:]
    assert away.startswith("warning: SLURM does not answer squeue on login1. Unable to contact")
    assert back == "SLURM answers again, after 30 s"
    assert node.steps[-1] == before


def test_a_reason_that_needs_a_person_is_warned_of_once(node: LoginNode) -> None:
    place = node.submitted("PENDING", "JobHeldUser")
    for _ in range(3):
        node.turn(place)
    warnings = [line for line in node.lines if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"warning: SLURM job {ID} does not start by itself: It is held.")
    assert node.steps[-1] == f"SLURM job {ID}: PENDING (JobHeldUser): a person has to act, see the log"


def test_another_such_reason_is_another_warning(node: LoginNode) -> None:
    place = node.submitted("PENDING", "JobHeldUser")
    node.turn(place, "PENDING", "JobHeldAdmin")
    assert len([line for line in node.lines if line.startswith("warning: ")]) == 2
    assert "JobHeldAdmin): a person has to act" in node.steps[-1]
    node.turn(place, "PENDING", "Priority")
    assert node.steps[-1] == f"waiting for SLURM job {ID}: PENDING (Priority)"
