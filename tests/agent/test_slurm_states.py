"""What squeue says of jobs."""

from __future__ import annotations

import pytest

from potato_ray.agent.slurm.states import FINAL, NOT_SEEN, JobState, in_words, needs_a_person, parse

LINES = """\
CLUSTER: potato
31|PENDING|None|
32|PENDING|Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions|
33|RUNNING|None|n[1-2]
34|COMPLETING|TimeLimit|n1
35|OUT_OF_MEMORY|OutOfMemory|b1
36|CANCELLED|JobHeldUser|
garbage
37x|RUNNING|None|n1
"""


def test_every_line_is_a_job_and_others_are_passed_over() -> None:
    found = parse(LINES, at=5.0)
    assert list(found) == ["31", "32", "33", "34", "35", "36"]
    assert found["31"] == JobState("PENDING", "", "", 5.0)
    assert found["32"].reason.endswith("DRAINED or reserved for jobs in higher priority partitions")
    assert found["33"] == JobState("RUNNING", "", "n[1-2]", 5.0)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (JobState("PENDING", "Priority"), "SLURM job 4242: PENDING (Priority)"),
        (JobState("PENDING"), "SLURM job 4242: PENDING"),
        (JobState("RUNNING", "", "node07"), "SLURM job 4242: RUNNING on node07"),
        (JobState("COMPLETING", "TimeLimit", "n1"), "SLURM job 4242: COMPLETING (TimeLimit) on n1"),
        (NOT_SEEN, "SLURM job 4242: submitted"),
    ],
)
def test_a_state_is_told_in_words(state: JobState, words: str) -> None:
    assert in_words("4242", state) == words


def test_a_job_that_runs_waits_or_clears_up_has_not_ended() -> None:
    unfinished = (
        "PENDING",
        "RUNNING",
        "COMPLETING",
        "SUSPENDED",
        "STOPPED",
        "CONFIGURING",
        "SPECIAL_EXIT",
        "",
    )
    assert not [state for state in unfinished if JobState(state).final]
    assert JobState("NODE_FAIL").final
    assert len(FINAL) == 10


@pytest.mark.parametrize(
    "reason",
    [
        "JobHeldUser",
        "JobHeldAdmin",
        "DependencyNeverSatisfied",
        "PartitionTimeLimit",
        "PartitionConfig",
        "PartitionNodeLimit",
        "launch failed requeued held",
        "launch_failed_requeued_held",
        "job requeued in held state",
        "BadConstraints",
        "QOSMaxWallDurationPerJobLimit",
        "AssocMaxCpuPerJobLimit",
        "QOSMinGRES",
        "InvalidQOS",
    ],
)
def test_a_reason_that_never_ends_by_itself_needs_a_person(reason: str) -> None:
    sentence = needs_a_person(JobState("PENDING", reason))
    assert "A person has to" in sentence
    assert needs_a_person(JobState("CANCELLED", reason)) == ""


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "Priority",
        "Resources",
        "Dependency",
        "BeginTime",
        "PartitionDown",
        "ReqNodeNotAvail, UnavailableNodes:d1",
        "QOSMaxJobsPerUserLimit",
        "AssocGrpGRES",
    ],
)
def test_other_reasons_end_by_waiting(reason: str) -> None:
    assert needs_a_person(JobState("PENDING", reason)) == ""


def test_a_special_exit_is_held_whatever_its_reason() -> None:
    assert "holds it" in needs_a_person(JobState("SPECIAL_EXIT", "something new"))
