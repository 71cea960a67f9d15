"""What a slurm backend's keys become for its agents, and whether SLURM gives a job a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from potato_ray.agent.slurm.keys import FLAGS, SlurmKeys
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.config.backends import SlurmBackend as Configured
from potato_ray.config.backends import SshBackend


def settings_of(**keys: Any) -> SlurmSettings:
    configured = Configured(type="slurm", host="login1", remote_dir="/shared/p", **keys)
    return SlurmSettings.from_config(configured, "the cluster", Path("/project"))


def test_keys_that_are_not_set_are_left_out_and_never_null() -> None:
    assert settings_of().keys == {
        "sbatch_args": [],
        "prelude": [],
        "job_python": "python3",
        "poll_interval_s": 10.0,
        "env": {},
    }


def test_every_key_that_is_set_goes_to_the_agent_as_it_was_written() -> None:
    words = {name: "x" for name in FLAGS if name not in ("time", "mem", "cpus_per_task")}
    given = {**words, "time": "04:00:00", "mem": "16G", "cpus_per_task": 4}
    made = settings_of(**given, sbatch_args=["--nice"], prelude=["module load cuda"], env={"A": "b c"})
    assert made.flags == given
    assert SlurmKeys.from_json(made.slurm).env == {"A": "b c"}
    assert made.slurm == {
        **given,
        "sbatch_args": ["--nice"],
        "prelude": ["module load cuda"],
        "job_python": "python3",
        "poll_interval_s": 10.0,
        "env": {"A": "b c"},
    }


def test_no_key_of_the_configuration_is_forgotten() -> None:
    own = set(Configured.model_fields) - set(SshBackend.model_fields)
    assert own == {*FLAGS, "sbatch_args", "prelude", "job_python", "poll_interval_s"}


def test_the_workers_run_by_the_agents_interpreter_unless_another_is_named() -> None:
    made = settings_of(python="/opt/python3")
    assert (made.job_python, made.keys["job_python"]) == ("/opt/python3", "/opt/python3")
    assert not made.names_job_python
    named = settings_of(python="/opt/python3", job_python="/shared/env/bin/python")
    assert named.names_job_python
    assert (named.python, named.job_python) == ("/opt/python3", "/shared/env/bin/python")


def test_nothing_there_is_looked_at_for_a_card_and_nothing_is_installed() -> None:
    made = settings_of(min_free_gpu_mb=9000)
    assert (made.least_card_mb, made.packages) == (None, ())


@pytest.mark.parametrize("gres", ["gpu", "gpu:1", "gpu:a100:2", "lscratch:10,gpu:1", "gres/gpu:1", "shard:4"])
def test_a_gres_with_gpus_gives_a_job_one(gres: str) -> None:
    assert settings_of(gres=gres).asks_for_cards


@pytest.mark.parametrize("gres", [None, "lscratch:gpus", "gpumem:10", "craynetwork:1"])
def test_any_other_gres_gives_it_none(gres: str | None) -> None:
    assert not settings_of(gres=gres).asks_for_cards


@pytest.mark.parametrize(
    "flag",
    [
        "--gpus=1",
        "--gpus-per-node=a100:1",
        "-G 1",
        "-G1",
        "--gres=gpu:1",
        "--gres gpu:1",
        "--tres-per-task=cpu:2,gres/gpu:1",
        "--nice --gpus=1",
    ],
)
def test_flags_of_sbatch_that_ask_for_gpus_do_so_too(flag: str) -> None:
    assert settings_of(sbatch_args=["--exclusive", flag]).asks_for_cards


def test_a_flag_and_its_value_may_be_two_entries() -> None:
    assert settings_of(sbatch_args=["--nice", "--gres", "gpu:1"]).asks_for_cards
    assert not settings_of(sbatch_args=["--nice", "--constraint", "gpu"]).asks_for_cards


@pytest.mark.parametrize("flag", ["--partition=gpu", "--constraint=gpu", "--gpu-bind=none", "--gres=tmp:5"])
def test_flags_that_only_look_like_it_do_not(flag: str) -> None:
    assert not settings_of(sbatch_args=[flag]).asks_for_cards
