"""What people are told of a SLURM job: what it waits for, and why it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_scene import AWAY, ID, SlurmScene

from potato_ray.agent.held_job import Failure
from potato_ray.job.folder import Exit
from potato_ray.job.follow import GONE

SUCCESS = Exit(0, None)
TERMINATED = Exit(-1, None, "terminated")


@pytest.fixture
def node(tmp_path: Path) -> SlurmScene:
    return SlurmScene(tmp_path)


def test_what_a_job_waits_for_is_told_once_until_it_changes(node: SlurmScene) -> None:
    place = node.submitted("PENDING", "Priority")
    for state, reason, nodes in (("PENDING", "Priority", ""), ("RUNNING", "None", "n1")):
        for _ in range(3):
            node.turn(place, state, reason, nodes)
    assert node.lines[1:] == [f"SLURM job {ID}: PENDING (Priority)", f"SLURM job {ID}: RUNNING on n1"]
    assert node.steps[2:] == [f"waiting for {line}" for line in node.lines[1:]]


def test_the_step_line_is_the_workers_own_once_it_has_begun(node: SlurmScene) -> None:
    place = node.submitted("PENDING", "Priority")
    n_steps = len(node.steps)
    node.begins()
    node.turn(place, "RUNNING", nodes="n1")
    node.fake.answers("squeue", code=1, err=AWAY)
    node.turn(place)
    node.turn(place)
    assert len(node.steps) == n_steps
    assert f"SLURM job {ID}: RUNNING on n1" in node.lines


def test_that_slurm_is_away_is_told_once_and_so_is_that_it_is_back(node: SlurmScene) -> None:
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


def test_a_reason_that_needs_a_person_is_warned_of_once(node: SlurmScene) -> None:
    place = node.submitted("PENDING", "JobHeldUser")
    for _ in range(3):
        node.turn(place)
    warnings = [line for line in node.lines if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"warning: SLURM job {ID} does not start by itself: It is held.")
    assert node.steps[-1] == f"SLURM job {ID}: PENDING (JobHeldUser): a person has to act, see the log"


def test_another_such_reason_is_another_warning(node: SlurmScene) -> None:
    place = node.submitted("PENDING", "JobHeldUser")
    node.turn(place, "PENDING", "JobHeldAdmin")
    assert len([line for line in node.lines if line.startswith("warning: ")]) == 2
    assert "JobHeldAdmin): a person has to act" in node.steps[-1]
    node.turn(place, "PENDING", "Priority")
    assert node.steps[-1] == f"waiting for SLURM job {ID}: PENDING (Priority)"


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
def test_a_job_that_slurm_ended_says_so(node: SlurmScene, says: str, end: Exit | None, words: str) -> None:
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
def test_slurm_is_not_asked_where_the_worker_has_said_its_end(node: SlurmScene, end: Exit) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.folder.write_exit(end)
    assert place.failure() is None
    assert node.fake.calls("scontrol") == []


def test_slurm_is_not_asked_where_the_end_was_ours(node: SlurmScene) -> None:
    node.submitted("RUNNING", nodes="n1").cancel("cancelled", 20.0)
    node.folder.write_exit(TERMINATED)
    assert node.place().failure() is None  # nor by the agent after the one that cancelled it
    assert node.fake.calls("scontrol") == []


def test_a_job_that_is_about_to_end_is_asked_about_until_it_has(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.shows(shown("COMPLETING"))
    node.clock.after(3.0, lambda: node.fake.shows(shown("PREEMPTED")))
    assert "preempted" in message(place.failure())
    assert len(node.fake.calls("scontrol")) == 3  # at 0, 1 and 3 s


def test_a_slurm_that_is_away_is_asked_again(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.shows(shown("TIMEOUT"))
    for _ in range(2):
        node.fake.answers("scontrol", code=1, err=AWAY)
    assert "its time limit" in message(place.failure())
    assert node.steps[-1] == f"asking how SLURM job {ID} ended: SLURM does not answer scontrol on login1."


def test_one_that_stays_away_is_not_asked_for_ever(node: SlurmScene) -> None:
    place = node.submitted("TIMEOUT", nodes="n1")
    node.clock.after(5.0, lambda: setattr(node, "is_unwanted", True))
    for _ in range(10):
        node.fake.answers("scontrol", code=1, err=AWAY)
    assert "its time limit" in message(place.failure())  # as squeue has said
    assert len(node.fake.calls("scontrol")) == 3


def test_a_job_back_in_the_queue_is_asked_about_before_it_is_cancelled(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.begins()
    assert node.turn(place, "PENDING", "BeginTime") == GONE
    node.fake.shows(shown("PENDING", Reason="BeginTime", Restarts="1"))
    place.end()
    node.fake.shows(shown("CANCELLED", Restarts="1"))  # what our own cancel has made of it
    assert node.order_of("scancel", "scontrol") == ["scontrol", "scancel"]
    assert "was put back into the queue" in message(place.failure())
