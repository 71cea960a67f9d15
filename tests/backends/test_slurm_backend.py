"""The backend slurm without a login node: where a run goes, and what its agent is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_host import FakeHost, host_agent_on

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.base import Job, Placement
from potato_ray.backends.host_settings import HostSettings
from potato_ray.backends.slurm import SlurmBackend
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.backends.ssh_settings import SshSettings
from potato_ray.errors import RunFailed
from potato_ray.ssh import Destination

LOGIN = Destination("login1")


def backend(**keys: Any) -> SlurmBackend:
    return SlurmBackend("cluster", SlurmSettings(LOGIN, keys=keys))


def test_a_run_that_can_use_a_gpu_gets_the_one_that_slurm_will_give_it() -> None:
    placed = backend(gres="gpu:2").place(frozenset())
    step = "cluster: slurm to login1, gres gpu:2"
    assert placed == Placement("cluster", "cuda", step=step, host="login1")
    by_flag = backend(sbatch_args=["--gpus=1"]).place(frozenset())
    assert isinstance(by_flag, Placement)
    assert by_flag.step == "cluster: slurm to login1, GPUs by sbatch_args"


@pytest.mark.parametrize(("keys", "uses_gpu"), [({}, True), ({"gres": "gpu:1"}, False)])
def test_a_job_without_gres_and_a_trainer_without_use_for_a_gpu_get_the_cpu(
    keys: dict[str, Any], uses_gpu: bool
) -> None:
    placed = backend(**keys).place(frozenset(), uses_gpu=uses_gpu)
    assert placed == Placement("cluster", "cpu", step="cluster: slurm to login1, CPU", host="login1")


def test_who_only_looks_executes_nothing(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="may only look"):
        backend().execute(Job("r", 1, tmp_path), lambda *args: pytest.fail("nothing to say"))
    assert not backend().alive(tmp_path)


@pytest.mark.parametrize(
    ("settings", "slurm", "least_mb"),
    [
        (SlurmSettings(LOGIN, keys={"gres": "gpu:1"}), {"gres": "gpu:1"}, None),
        (SshSettings(LOGIN, min_free_gpu_mb=900.0), None, 900.0),
        (SshSettings(LOGIN, gpus="1"), None, None),
    ],
)
def test_an_agent_is_told_at_its_start_how_to_submit_jobs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: HostSettings,
    slurm: dict[str, Any] | None,
    least_mb: float | None,
) -> None:
    host = FakeHost(tmp_path)
    agent = host_agent_on(host, monkeypatch)
    agent.settings = settings
    agent.open(Talk())
    [line] = host.sent
    assert (line["slurm"], line["min_free_gpu_mb"]) == (slurm, least_mb)
