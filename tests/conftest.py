"""What every test shares: hypothesis without deadlines, long tests when asked for, turns at the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from slurm_cluster import SlurmCluster
from turns import take_turns

# Sets the switches that Ray reads when it is imported, before any test module can import it.
import potato_ray.actors  # noqa: F401

# How long one example takes says more of the machine's other work than of ours.
settings.register_profile(
    "steady",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    take_turns(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests marked long unless POTATO_RAY_LONG is set, as ./run test --long does."""
    if os.environ.get("POTATO_RAY_LONG"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


JOBS = (
    "tests/agent/",
    "tests/backends/",
    "tests/end_to_end/test_slurm_agent.py",
    "tests/host/",
    "tests/job/",
)
"""Tests that give jobs the same names over and over, and end the processes of a job by its name."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share out tests by module; those of JOBS stay in one process, or they would end each other's jobs."""
    from xdist.scheduler import LoadFileScheduling

    class ByModule(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "jobs" if nodeid.startswith(JOBS) else str(super()._split_scope(nodeid))

    return ByModule(config, log)


@pytest.fixture(scope="module")
def module_slurm() -> Iterator[SlurmCluster]:
    """A real SLURM for the tests of a module."""
    with SlurmCluster() as cluster:
        yield cluster


@pytest.fixture
def slurm(module_slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """The same for one test after the other: none leaves a job or a node that is down."""
    yield module_slurm
    module_slurm.clear()
