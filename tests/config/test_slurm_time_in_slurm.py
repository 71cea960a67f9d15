"""Time limits as the configuration reads them, and as a real sbatch does."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from slurm_cluster import SlurmCluster

from potato_ray.config.slurm_time import UNLIMITED, seconds_of

NUMBERS = st.one_of(
    st.integers(0, 130).map(str), st.integers(0, 99).map("{:02}".format), st.integers(0, 2**31).map(str)
)
CLOCKS = st.lists(NUMBERS, min_size=1, max_size=4).map(":".join)
TIMES = st.one_of(
    CLOCKS,
    st.tuples(st.integers(0, 30_000), CLOCKS).map(lambda parts: f"{parts[0]}-{parts[1]}"),
    st.text("0123456789:-", max_size=9),
    st.sampled_from(["UNLIMITED", "infinite", "Unlimited", "unlimitedx", "4h", "1.5", "0x10", "+5", "5 "]),
)
SHOWN = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)")
few = settings(max_examples=60)


def ours(time: str) -> float | None:
    """The minutes; None: refused."""
    try:
        return math.ceil(seconds_of(time) / 60) if seconds_of(time) < UNLIMITED else UNLIMITED
    except ValueError:
        return None


def slurms(cluster: SlurmCluster, time: str) -> float | None:
    """The same of a job that sbatch takes, by its word."""
    done = cluster.run("sbatch", "--parsable", "--hold", f"--time={time}", "--output=/dev/null", "--wrap=:")
    if done.returncode:
        assert "Invalid --time specification" in done.stderr, (time, done.stderr)
        return None
    job = cluster.job(done.stdout.strip(), cluster.folder)
    limit = job.fields["TimeLimit"]
    job.cancel()
    shown = SHOWN.fullmatch(limit)
    if shown is None:
        assert limit == "UNLIMITED"
        return UNLIMITED
    days, hours, minutes, _ = (int(part or 0) for part in shown.groups())
    return (days * 24 + hours) * 60 + minutes


@few
@given(TIMES)
@example("1-")
@example("0-0:0:0")
@example("24855-03:13:00")
@example("0:59")
def test_a_time_that_we_take_is_the_same_to_sbatch(module_slurm: SlurmCluster, time: str) -> None:
    taken = ours(time)
    if taken is not None:
        assert slurms(module_slurm, time) == taken


@few
@given(TIMES)
@example("1:")
@example("-1-2")
def test_a_time_that_sbatch_refuses_is_refused_here(module_slurm: SlurmCluster, time: str) -> None:
    if slurms(module_slurm, time) is None:
        assert ours(time) is None


@pytest.mark.parametrize(("time", "written"), [("-1", -1), ("-5", -5), ("99999-", 99_999 * 24 * 60)])
def test_what_sbatch_misreads_is_refused_here(module_slurm: SlurmCluster, time: str, written: float) -> None:
    assert slurms(module_slurm, time) != written
    assert ours(time) is None
