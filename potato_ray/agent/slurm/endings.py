"""Why a SLURM job ended before its worker had finished: what people are told.

The worker's own end stands, as its launcher left it in exit.json. Where that is missing, or tells of a
signal that nobody of us sent, SLURM's reason is the better one.
"""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from potato_ray.agent.held_job import Failure
from potato_ray.agent.slurm.job_facts import JobFacts, prelude_failures
from potato_ray.agent.slurm.refusals import CODE
from potato_ray.agent.slurm.states import JobState
from potato_ray.job.events import EXIT_CANCELLED
from potato_ray.job.folder import Exit

AGAIN = "Start the run again."
_NOT_WRITABLE = 53
"""The signal in the ExitCode of a job whose slurm.out could not be opened."""
_NO_PROGRAM = (126, 127)
_MEMORY = re.compile(r"oom[-_ ]kill|OOM Killed|exceeded (job )?memory limit", re.IGNORECASE)


class Cause(NamedTuple):
    """`what` ends the sentence "SLURM job 4242 ended before the worker finished: …"."""

    what: str
    next_step: str = AGAIN


def ending(
    job_id: str,
    shown: str,
    output: str,
    end: Exit | None,
    *,
    asked: bool = False,
    seen: JobState | None = None,
    python: str = "",
) -> Failure | None:
    """Why the job ended, or None where the worker's own end says it.

    `shown` is what `scontrol show job -o` prints of it ("": nothing), `output` the tail of slurm.out, `end`
    its exit.json. `asked`: we have cancelled it. `seen` is the last that squeue said, for want of scontrol;
    `python` the interpreter that job.sh starts.
    """
    if asked or (end is not None and not is_from_outside(end)):
        return None
    facts = JobFacts.of(shown, output, seen)
    cause = _of_slurm(facts)
    if cause is None and end is None:
        cause = _with_prelude(_of_the_script(facts, python), facts)
    if cause is None:
        return None
    what = f"SLURM job {job_id} ended before the worker finished: {cause.what}"
    return Failure(CODE, what.rstrip(".") + ".", cause.next_step)


def is_from_outside(end: Exit) -> bool:
    """Whether it was a signal that ended the worker, and not itself or its launcher's limits."""
    if end.reason:
        return end.reason == "terminated"
    return end.signal is not None or end.code == EXIT_CANCELLED


def _of_slurm(facts: JobFacts) -> Cause | None:
    """What SLURM, or somebody by way of it, did to the job."""
    cause = _by_state(facts) or _by_line(facts)
    if cause is None and facts.state == "CANCELLED":
        cause = _cancelled(facts)
    if cause is None and _MEMORY.search(facts.output):
        cause = _out_of_memory(facts)
    if cause is None and facts.cancelled:
        cause = _cancelled(facts)
    if facts.restarts and facts.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"):
        what = cause.what if cause is not None else f"it was taken off its node{facts.where}"
        return Cause(
            f"{what}, and was put back into the queue, where it cannot go on",
            cause.next_step if cause is not None else AGAIN,
        )
    return cause


def _by_state(facts: JobFacts) -> Cause | None:
    if facts.state == "TIMEOUT" or facts.reason == "TimeLimit":
        return _time_limit(facts)
    if facts.state == "OUT_OF_MEMORY" or facts.reason == "OutOfMemory":
        return _out_of_memory(facts)
    if facts.state == "NODE_FAIL" or facts.reason == "NodeDown":
        return _node_failed(facts)
    if facts.state == "PREEMPTED":
        return _preempted(facts)
    if facts.state == "DEADLINE" or facts.reason == "DeadLine":
        return Cause("its --deadline passed", "Give it a later --deadline in `sbatch_args`, or none.")
    if facts.state == "BOOT_FAIL":
        return Cause(
            f"its node did not start{facts.where}", "Start the run again, with `exclude` of that node."
        )
    if facts.state == "REVOKED":
        return Cause("another cluster of the federation took it", AGAIN)
    return None


def _by_line(facts: JobFacts) -> Cause | None:
    """By the reason in SLURM's own line in slurm.out."""
    if "TIME LIMIT" in facts.due_to:
        return _time_limit(facts)
    if "PREEMPTION" in facts.due_to:
        return _preempted(facts)
    if "NODE FAILURE" in facts.due_to:
        return _node_failed(facts)
    if "REQUEUE" in facts.due_to:
        return Cause(
            f"it was requeued from outside{facts.where}", "Ask who requeues jobs there, then start again."
        )
    return None


def _time_limit(facts: JobFacts) -> Cause:
    limit = f" of {facts.time_limit}" if facts.time_limit else ""
    return Cause(
        f"it reached its time limit{limit}{facts.where}",
        "Raise the backend's `time`, or train on fewer items or for fewer epochs.",
    )


def _out_of_memory(facts: JobFacts) -> Cause:
    given = f", {facts.memory}," if facts.memory else ""
    return Cause(
        f"it needed more memory than SLURM gave it{given}{facts.where}",
        "Raise `mem` of the backend, or use a smaller model, smaller batches or fewer items.",
    )


def _node_failed(facts: JobFacts) -> Cause:
    node = f"its node {facts.nodes}" if facts.nodes else "its node"
    return Cause(f"{node} failed", "Start the run again; should that node fail again, name it in `exclude`.")


def _preempted(facts: JobFacts) -> Cause:
    return Cause(
        f"it was preempted by a job that comes first{facts.where}",
        "Start the run again, or name a `partition` or `qos` whose jobs are not preempted.",
    )


def _cancelled(facts: JobFacts) -> Cause:
    if facts.reason == "DependencyNeverSatisfied":
        return Cause(
            "the job that it waited for did not end as asked for", "Correct --dependency in `sbatch_args`."
        )
    advice = "Ask who cancels jobs there, then start the run again."
    if facts.nodes:
        return Cause(f"it was cancelled from outside, by scancel or an administrator{facts.where}", advice)
    waited = f" ({facts.reason})" if facts.reason else ""
    return Cause(f"it was cancelled from outside while it waited for a node{waited}", advice)


def _of_the_script(facts: JobFacts, python: str) -> Cause:
    """What went wrong in job.sh, before or beside the worker; there is no exit.json."""
    return _not_started(facts, python) or _signalled(facts) or _ended(facts)


def _not_started(facts: JobFacts, python: str) -> Cause | None:
    shared = "`remote_dir` (an agent's --workdir) has to lie on storage that the compute nodes share."
    if facts.signal == _NOT_WRITABLE:
        file = facts.output_file or "slurm.out"
        return Cause(
            f"{file} could not be opened{facts.where}: its folder is missing there or not writable", shared
        )
    if "bad interpreter(" in facts.output:
        said = re.search(r"bad interpreter\((.*?)\): (.+)", facts.output)
        words = f"{said.group(1)}: {said.group(2)}" if said else "its shell is missing"
        return Cause(
            f"job.sh could not be started{facts.where}: {words}", "Have bash installed on that node."
        )
    if facts.prelude_code is not None:
        words = f": {facts.last_words}" if facts.last_words else ""
        return Cause(
            f"its prelude ended it with code {facts.prelude_code}{facts.where}{words}",
            "Correct the backend's `prelude`; a line of it must not exit.",
        )
    if facts.code in _NO_PROGRAM:
        named = f"its interpreter {python}" if python else "its interpreter"
        return Cause(
            f"{named} could not be started{facts.where}: {facts.last_words or f'code {facts.code}'}",
            "Set `job_python` to a Python 3.8 or later that the compute nodes have.",
        )
    if "can't open file" in facts.output:
        return Cause(f"the code is not to be seen{facts.where}: {facts.last_words}", shared)
    if "SyntaxError" in facts.output:
        named = f"its interpreter {python}" if python else "its interpreter"
        return Cause(
            f"{named} is too old{facts.where}: {facts.last_words}",
            "Set `job_python` to a Python 3.8 or later that the compute nodes have.",
        )
    return None


def _signalled(facts: JobFacts) -> Cause | None:
    if not facts.signal:
        return None
    advice = "Look at that node's log, then start the run again."
    if facts.signal == signal.SIGKILL:
        advice = "Most often memory ran out: raise the backend's `mem`, or train on fewer items."
    return Cause(f"it was ended by {_signal_name(facts.signal)}{facts.where}", advice)


def _ended(facts: JobFacts) -> Cause:
    words = f": {facts.last_words}" if facts.last_words else ""
    if facts.code:
        return Cause(
            f"its script ended with code {facts.code}{facts.where}, and left no result{words}",
            "Look at slurm.out and launcher.log in the job's folder, then start the run again.",
        )
    if not facts.state:
        return Cause(
            f"SLURM knows it no more, and it left no result{words}", "Look at `sacct`, then start again."
        )
    reason = f" ({facts.reason})" if facts.reason else ""
    return Cause(f"SLURM calls it {facts.state}{reason}{facts.where}, and it left no result{words}")


def _with_prelude(cause: Cause, facts: JobFacts) -> Cause:
    """The same, with the lines of the prelude that failed before, which are the likeliest cause."""
    failed = prelude_failures(facts.output)
    if facts.prelude_code is not None and failed and failed[-1].endswith(facts.last_words):
        failed.pop()  # the one that ended it, in these words
    if not failed:
        return cause
    first = "Correct the backend's `prelude`."
    further = "" if cause.next_step.startswith(first[:-1]) else f" Is that in order: {cause.next_step}"
    return Cause(f"{cause.what.rstrip('.')}; before that, {'; '.join(failed)}", f"{first}{further}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
