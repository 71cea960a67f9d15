"""The SLURM keys of a backend, as the agent on the login node gets them."""

from __future__ import annotations

from typing import Any

import pytest

from potato_ray.agent.errors import AgentMisconfigured
from potato_ray.agent.slurm.keys import FLAGS, SlurmConfigInvalid, SlurmKeys
from potato_ray.config.slurm_time import FORMS, seconds_of

ALL = {
    "partition": "gpu",
    "account": "nlp",
    "qos": "high",
    "gres": "gpu:a100:1",
    "time": "04:00:00",
    "mem": "32G",
    "cpus_per_task": 4,
    "constraint": "a100&ib",
    "nodelist": "node[01-04]",
    "exclude": "node09",
    "reservation": "course",
}


def test_each_key_that_is_set_becomes_one_flag() -> None:
    assert SlurmKeys.from_json(ALL).flags() == (
        "--partition=gpu",
        "--account=nlp",
        "--qos=high",
        "--gres=gpu:a100:1",
        "--time=04:00:00",
        "--mem=32G",
        "--cpus-per-task=4",
        "--constraint=a100&ib",
        "--nodelist=node[01-04]",
        "--exclude=node09",
        "--reservation=course",
    )
    assert ALL.keys() == FLAGS.keys()


def test_a_key_that_is_not_set_leaves_its_flag_out() -> None:
    keys = SlurmKeys.from_json({"partition": "gpu", "gres": None})
    assert keys.flags() == ("--partition=gpu",)
    assert (keys.poll_interval_s, keys.job_python, keys.prelude, dict(keys.env)) == (10.0, "", (), {})


def test_minutes_and_megabytes_may_be_numbers() -> None:
    assert SlurmKeys.from_json({"time": 90, "mem": 4000}).flags() == ("--time=90", "--mem=4000")


@pytest.mark.parametrize(
    "time", ["90", "30:15", "4:00:00", "1-", "1-00", "1-2:30:05", "UNLIMITED", "infinite"]
)
def test_what_validate_takes_for_a_time_is_one_here(time: str) -> None:
    assert seconds_of(time)
    assert SlurmKeys.from_json({"time": time}).time == time


def test_a_prelude_entry_of_several_lines_is_several_lines() -> None:
    assert SlurmKeys.from_json({"prelude": ["module load cuda", "a\r\nb\n", ""]}).prelude == (
        "module load cuda",
        "a",
        "b",
        "",
    )


def test_numbers_in_env_become_text_and_the_values_stay_out_of_sight() -> None:
    keys = SlurmKeys.from_json({"env": {"PATH": "/opt/slurm/bin", "N": 3, "SECRET": "hush"}})
    assert keys.env == {"PATH": "/opt/slurm/bin", "N": "3", "SECRET": "hush"}
    assert "hush" not in repr(keys)


@pytest.mark.parametrize(
    ("key", "value", "must_be"),
    [
        ("partition", "a b", "a word"),
        ("partition", "", "a word"),
        ("gres", "gpu:1#", "a word"),
        ("constraint", 'a"b', "a word"),
        ("qos", 3, "a word"),
        ("time", True, "a SLURM time"),
        ("time", "4 hours", f"a SLURM time ({FORMS}), not '4 hours'"),
        ("time", "4h", "a SLURM time"),
        ("time", -5, "a SLURM time"),
        ("time", "1:2:3:4", "a SLURM time"),
        ("cpus_per_task", 0, "a whole number, 1 or more"),
        ("cpus_per_task", 1.5, "a whole number, 1 or more"),
        ("poll_interval_s", 0, "a number of seconds above 0"),
        ("poll_interval_s", float("nan"), "a number of seconds above 0"),
        ("poll_interval_s", "10", "a number of seconds above 0"),
        ("job_python", "-c", "a Python"),
        ("job_python", "a\nb", "a Python"),
        ("sbatch_args", "--exclusive", "a list of texts"),
        ("sbatch_args", ["exclusive"], "a list of flags"),
        ("sbatch_args", ["-C", " "], "a list of flags"),
        ("sbatch_args", ["--x\n#SBATCH --y"], "a list of flags"),
        ("prelude", "module load cuda", "a list of texts"),
        ("prelude", ["a\0b"], "without NUL"),
        ("env", {"A B": "x"}, "an object whose names"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_what_it_must_be(key: str, value: Any, must_be: str) -> None:
    with pytest.raises(SlurmConfigInvalid) as refused:
        SlurmKeys.from_json({key: value})
    assert refused.value.message.startswith(f"{key} must be ")
    assert must_be in refused.value.message
    assert isinstance(refused.value, AgentMisconfigured)


@pytest.mark.parametrize("env", [{"TOKEN": ["hush"]}, {"TOKEN": "hush\0"}, {"TOKEN": True}, ["hush"]])
def test_a_wrong_env_is_refused_without_what_it_holds(env: Any) -> None:
    with pytest.raises(SlurmConfigInvalid, match="env") as refused:
        SlurmKeys.from_json({"env": env})
    assert "hush" not in str(refused.value)


def test_an_unknown_key_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(SlurmConfigInvalid, match=r"no SLURM key 'partion'.*Did you mean partition\?"):
        SlurmKeys.from_json({"partion": "gpu"})
    with pytest.raises(SlurmConfigInvalid, match="The keys are partition"):
        SlurmKeys.from_json({"xyzzy": 1})


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(SlurmConfigInvalid, match="must be an object"):
        SlurmKeys.from_json(["partition"])
