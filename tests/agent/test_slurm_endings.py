"""Why a SLURM job ended before its worker had finished, from what SLURM prints in each case."""

from __future__ import annotations

import pytest

from potato_ray.agent.held_job import Failure
from potato_ray.agent.slurm.endings import ending
from potato_ray.agent.slurm.job_facts import JobFacts, prelude_failures
from potato_ray.agent.slurm.states import JobState
from potato_ray.job.folder import Exit

BEGIN = "SLURM job 4242 ended before the worker finished: "
TERMINATED = Exit(None, 15, "terminated")
SPOOL = "/var/spool/slurmd/job04242/slurm_script"


def shown(state: str, reason: str = "None", code: str = "0:0", nodes: str = "node07", more: str = "") -> str:
    return (
        f"JobId=4242 JobName=potato-run-7.1-ab12 UserId=ada(1000) JobState={state} Reason={reason} "
        f"Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 ExitCode={code} RunTime=00:01:03 "
        f"TimeLimit=00:10:00 TimeMin=N/A ReqNodeList=(null) ExcNodeList=(null) NodeList={nodes} "
        f"BatchHost=node07 StdOut=/shared/jobs/run-7.1/slurm.out Power={more}"
    )


def cancelled(why: str = "") -> str:
    due = f" DUE TO {why}" if why else ""
    return f"slurmstepd-node07: error: *** JOB 4242 ON node07 CANCELLED AT 2026-11-29T12:24:47{due} ***\n"


def told(text: str = "", output: str = "", end: Exit | None = None, seen: JobState | None = None) -> Failure:
    found = ending("4242", text, output, end, seen=seen, python="/opt/py")
    assert found is not None
    assert found.code == "slurm_failed"
    assert found.message.startswith(BEGIN)
    assert found.next_step.endswith(".")
    return found


@pytest.mark.parametrize("end", [None, TERMINATED, Exit(4, None), Exit(None, 9)])
@pytest.mark.parametrize(
    ("text", "output", "what"),
    [
        (
            shown("TIMEOUT", "TimeLimit", "0:15"),
            cancelled("TIME LIMIT"),
            "it reached its time limit of 00:10:00 on node07.",
        ),
        (shown("COMPLETING", "TimeLimit"), "", "it reached its time limit of 00:10:00 on node07."),
        ("", cancelled("TIME LIMIT"), "it reached its time limit on node07."),
        (shown("OUT_OF_MEMORY", "OutOfMemory", "0:125"), "", "it needed more memory than SLURM gave it on"),
        (
            shown("FAILED", "JobLaunchFailure", "0:9"),
            "slurmstepd-b1: error: StepId=1.batch exceeded memory limit (260 > 209), being killed\n",
            "it needed more memory",
        ),
        (
            shown("FAILED", "NonZeroExitCode", "1:0"),
            "slurmstepd: error: Detected 1 oom_kill event in StepId=9.batch. Some of the step tasks have "
            "been OOM Killed.\n",
            "it needed more memory",
        ),
        (shown("NODE_FAIL", "NodeDown"), "", "its node node07 failed."),
        (
            shown("FAILED"),
            cancelled("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
            "its node node07 failed.",
        ),
        (shown("PREEMPTED", "None", "3:0"), cancelled("PREEMPTION"), "it was preempted"),
        (shown("CANCELLED", "None", "0:15"), cancelled("PREEMPTION"), "it was preempted"),
        (shown("DEADLINE", "DeadLine", "0:1", nodes=""), "", "its --deadline passed."),
        (shown("BOOT_FAIL"), "", "its node did not start on node07."),
        (
            shown("CANCELLED", "None", "0:15"),
            cancelled(),
            "it was cancelled from outside, by scancel or an administrator on node07.",
        ),
        (shown("FAILED", "NonZeroExitCode", "3:0"), cancelled(), "it was cancelled from outside, by scancel"),
        (shown("COMPLETED", "None"), cancelled(), "it was cancelled from outside, by scancel"),
    ],
)
def test_slurms_reason_wins_over_no_end_and_over_a_signal(
    text: str, output: str, what: str, end: Exit | None
) -> None:
    assert told(text, output, end).message.startswith(BEGIN + what)


@pytest.mark.parametrize(
    "end",
    [
        Exit(0, None),
        Exit(1, None),
        Exit(5, None),
        Exit(None, 15, "wall_clock"),
        Exit(None, 9, "out_of_memory"),
        Exit(4, None, "cancelled"),
        Exit(None, 15, "lost"),
    ],
)
def test_the_workers_own_end_stands(end: Exit) -> None:
    assert ending("4242", shown("OUT_OF_MEMORY", "OutOfMemory", "0:125"), cancelled(), end) is None


def test_a_signal_of_which_slurm_knows_nothing_is_the_workers_own() -> None:
    assert ending("4242", shown("FAILED", "NonZeroExitCode", "139:0"), "", Exit(None, 11)) is None
    assert ending("4242", "", "", TERMINATED) is None


def test_a_job_that_we_have_cancelled_has_no_failure() -> None:
    assert ending("4242", shown("CANCELLED"), cancelled(), None, asked=True) is None
    assert ending("4242", shown("CANCELLED"), cancelled(), TERMINATED, asked=True) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            shown("CANCELLED", "Priority", nodes=""),
            "it was cancelled from outside while it waited for a node (Priority).",
        ),
        (
            shown("CANCELLED", "None", nodes="(null)"),
            "it was cancelled from outside while it waited for a node.",
        ),
        (shown("CANCELLED", "DependencyNeverSatisfied", nodes=""), "the job that it waited for did not end"),
    ],
)
def test_a_job_that_was_cancelled_while_it_waited_never_ran(text: str, what: str) -> None:
    assert told(text).message.startswith(BEGIN + what)


@pytest.mark.parametrize(
    ("why", "what"),
    [
        ("PREEMPTION", "it was preempted by a job that comes first on node07"),
        ("JOB REQUEUE", "it was requeued from outside on node07"),
        ("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "its node node07 failed"),
        ("", "it was cancelled from outside, by scancel or an administrator on node07"),
    ],
)
def test_a_job_that_was_requeued_cannot_go_on(why: str, what: str) -> None:
    text = shown("PENDING", "BeginTime", nodes="").replace("Restarts=0", "Restarts=1")
    message = told(text, cancelled(why)).message
    assert message == f"{BEGIN}{what}, and was put back into the queue, where it cannot go on."
    assert "it was taken off its node, and was put back" in told(text).message


@pytest.mark.parametrize(
    ("text", "output", "what", "advice"),
    [
        (
            shown("FAILED", "JobLaunchFailure", "0:53"),
            "",
            "/shared/jobs/run-7.1/slurm.out could not be opened on node07: its folder is missing there",
            "remote_dir",
        ),
        (
            shown("FAILED", "NonZeroExitCode", "2:0"),
            "slurmstepd-n2: error: execve(): bad interpreter(/bin/bash): No such file or directory\n",
            "job.sh could not be started on node07: /bin/bash: No such file or directory.",
            "bash",
        ),
        (
            shown("FAILED", "NonZeroExitCode", "127:0"),
            f"{SPOOL}: line 9: exec: /opt/py: not found\n",
            "its interpreter /opt/py could not be started on node07: exec: /opt/py: not found.",
            "job_python",
        ),
        (
            shown("FAILED", "NonZeroExitCode", "1:0"),
            '  File "/c/start.py", line 8\nSyntaxError: future feature annotations is not defined\n',
            "its interpreter /opt/py is too old on node07: SyntaxError: future feature",
            "job_python",
        ),
        (
            shown("FAILED", "NonZeroExitCode", "2:0"),
            "/opt/py: can't open file '/shared/code/5f/start.py': [Errno 2] No such file or directory\n",
            "the code is not to be seen on node07: /opt/py: can't open file",
            "remote_dir",
        ),
        (shown("FAILED", "JobLaunchFailure", "0:9"), "", "it was ended by SIGKILL on node07.", "`mem`"),
        (
            shown("FAILED", "RaisedSignal:11(Segmentation_fault)", "0:11"),
            "",
            "it was ended by SIGSEGV",
            "log",
        ),
        (shown("FAILED", "RaisedSignal:64", "0:64"), "", "it was ended by SIGRTMAX", "log"),
        (
            shown("FAILED", "NonZeroExitCode", "1:0"),
            "first\nThe disk is full.\n",
            "its script ended with code 1 on node07, and left no result: The disk is full.",
            "slurm.out",
        ),
        (shown("COMPLETED"), "", "SLURM calls it COMPLETED on node07, and it left no result.", "again"),
        ("", "", "SLURM knows it no more, and it left no result.", "sacct"),
    ],
)
def test_a_job_that_left_no_end_is_explained_by_its_traces(
    text: str, output: str, what: str, advice: str
) -> None:
    failure = told(text, output)
    assert failure.message.startswith(BEGIN + what)
    assert advice in failure.next_step


PRELUDE = f"""\
{SPOOL}: line 22: module: command not found
potato-ray: line 1 of the prelude failed with code 127
{SPOOL}: line 30: exec: /opt/py: not found
"""


def test_a_line_of_the_prelude_that_failed_is_named() -> None:
    failure = told(shown("FAILED", "NonZeroExitCode", "127:0"), PRELUDE)
    assert failure.message == (
        f"{BEGIN}its interpreter /opt/py could not be started on node07: exec: /opt/py: not found; before "
        "that, line 1 of its prelude failed with code 127: module: command not found."
    )
    assert failure.next_step.startswith("Correct the backend's `prelude`. Is that in order: Set `job_python`")


def test_a_prelude_that_ended_the_job_is_named() -> None:
    output = (
        f"{SPOOL}: line 22: syntax error near unexpected token `fi'\n"
        "potato-ray: the prelude ended the job with code 2\n"
    )
    failure = told(shown("FAILED", "NonZeroExitCode", "2:0"), output)
    assert failure.message.startswith(f"{BEGIN}its prelude ended it with code 2 on node07: syntax error near")
    assert "`prelude`" in failure.next_step


def test_a_line_that_ended_the_prelude_is_told_once() -> None:
    output = (
        "/var/spool/job: line 14: module: command not found\n"
        "potato-ray: line 2 of the prelude failed with code 127\n"
        "potato-ray: the prelude ended the job with code 127\n"
    )
    message = told(shown("FAILED", "NonZeroExitCode", "127:0"), output).message
    assert message == f"{BEGIN}its prelude ended it with code 127 on node07: module: command not found."


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ("MinMemoryNode=400M", ", 400M, on node07"),
        ("MinMemoryCPU=100M", ", 100M a CPU, on node07"),
        ("MinMemoryNode=0", " on node07"),
    ],
)
def test_a_job_that_needed_too_much_memory_is_told_what_it_had(fields: str, given: str) -> None:
    failure = told(f"{shown('OUT_OF_MEMORY', 'OutOfMemory', '0:125')} {fields}", "")
    assert f"it needed more memory than SLURM gave it{given}" in failure.message


def test_a_prelude_that_failed_is_no_excuse_for_slurm() -> None:
    assert "prelude" not in told(shown("TIMEOUT", "TimeLimit"), PRELUDE).message


def test_the_failures_of_a_prelude_can_be_told_of_a_job_that_runs() -> None:
    assert prelude_failures(PRELUDE) == [
        "line 1 of its prelude failed with code 127: module: command not found"
    ]
    assert prelude_failures("potato-ray: line 2 of the prelude failed with code 3\n") == [
        "line 2 of its prelude failed with code 3"
    ]
    assert prelude_failures("") == []


def test_squeue_is_believed_where_there_is_no_scontrol() -> None:
    assert (
        told(seen=JobState("TIMEOUT", "TimeLimit", "n1")).message
        == f"{BEGIN}it reached its time limit on n1."
    )
    assert told(seen=JobState("CANCELLED", "JobHeldUser")).message.endswith("for a node (JobHeldUser).")
    assert (
        "SLURM calls it FAILED (NonZeroExitCode) on n1"
        in told(seen=JobState("FAILED", "NonZeroExitCode", "n1")).message
    )


def test_scontrol_goes_before_squeue() -> None:
    facts = JobFacts.of(shown("FAILED", "launch_failed_requeued_held"), "", JobState("RUNNING", "x", "n9"))
    assert (facts.state, facts.reason, facts.nodes) == ("FAILED", "launch failed requeued held", "node07")


def test_of_several_ends_in_slurm_out_the_last_one_counts() -> None:
    output = cancelled("JOB REQUEUE").replace("node07", "node03") + "at work\n" + cancelled("TIME LIMIT")
    assert told("", output).message == f"{BEGIN}it reached its time limit on node07."


def test_garbage_is_survived() -> None:
    assert JobFacts.of("JobState= ExitCode=x:y Restarts=?", "\0\n***") == JobFacts(output="\0\n***")
