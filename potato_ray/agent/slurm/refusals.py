"""What sbatch says when SLURM does not take a job, and what to do about it."""

from __future__ import annotations

import re

from potato_ray.agent.held_job import Failure

CODE = "slurm_failed"

# The first that fits counts: what is special comes before what it is part of.
_ADVICE = (
    (r"(unrecognized|invalid|unknown) option", "Correct `sbatch_args`."),
    (
        r"policy|joblimit",
        "A limit of your account or qos is reached: wait for other jobs to end, or ask for less.",
    ),
    (r"partition.*(inactive|drain)", "Its partition is closed: name another `partition`, or wait."),
    (r"account or account/partition", "Correct `account`; it has to be allowed for the `partition`."),
    (r"partition", "Correct `partition`; `sinfo` lists those that there are."),
    (r"time limit|--time", "Lower or correct `time`; `sinfo` shows the limit of each partition."),
    (r"gres|generic resource", "Correct `gres`; `sinfo -o %G` shows what the nodes have."),
    (r"memory|--mem", "Lower or correct `mem`."),
    (r"account", "Correct `account`."),
    (r"qos", "Correct `qos`."),
    (r"feature|constraint", "Correct `constraint`; `sinfo -o %f` shows the nodes' features."),
    (r"node name", "Correct `nodelist` and `exclude`; `sinfo -N` lists the nodes."),
    (r"reservation", "Correct `reservation`; `scontrol show reservation` lists those that there are."),
    (r"node configuration|processors|cpu", "No node has all of it: lower gres, mem or cpus_per_task."),
    (r"dependency", "Correct --dependency in `sbatch_args`."),
    (r"permission|denied|not allowed", "Ask the cluster's support whether you may submit jobs there."),
)
_OTHERWISE = "Correct the SLURM keys of the backend, then start the run again."


def advice(words: str) -> str:
    """What to do about a refusal in these words; "" where they are none that is known."""
    low = words.lower()
    return next((text for pattern, text in _ADVICE if re.search(pattern, low)), "")


def refusal(words: str, host: str) -> Failure:
    """Why a job was not taken; `words` are those of sbatch, `host` is the login node."""
    said = words or "it gave no reason"
    return Failure(CODE, f"SLURM refused the job on {host}: {said}.", advice(words) or _OTHERWISE)


def no_id(said: str, host: str) -> Failure:
    """sbatch reported success, but nothing that can be the id of a job."""
    return Failure(
        CODE,
        f"sbatch on {host} answered without the id of a job: {said!r:.200}.",
        "Look whether sbatch is a script of that cluster; --parsable has to print the id.",
    )


def no_answer(name: str, host: str, silent_s: float, words: str) -> Failure:
    """SLURM was away for so long that it is not asked again."""
    return Failure(
        CODE,
        f"SLURM on {host} did not take the job for {silent_s:.0f} s: {words}",
        "Start the run again once `scontrol ping` answers there; "
        f"`scancel -n {name}` ends a job that came late all the same.",
    )
