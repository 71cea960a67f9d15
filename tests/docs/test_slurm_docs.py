"""docs/slurm.md says what becomes of each key, and what the check on a login node prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from potato_ray.agent.command_line import _parser
from potato_ray.agent.slurm.endings import ending
from potato_ray.agent.slurm.keys import FLAGS, SlurmKeys
from potato_ray.agent.slurm.place import AFTER_GRACE_S, SETTLE_S
from potato_ray.agent.slurm.refusals import refusal
from potato_ray.agent.slurm.states import JobState, in_words
from potato_ray.agent.slurm.submission import PATIENCE_S
from potato_ray.backends.base import Check, CheckReport
from potato_ray.backends.host_report import HostReport
from potato_ray.backends.making import make_backend
from potato_ray.backends.slurm import SlurmBackend
from potato_ray.backends.slurm_check import COMMANDS, reached
from potato_ray.cli.checking import _print
from potato_ray.config import load
from potato_ray.config.backends import SlurmBackend as Configured

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "slurm.md").read_text("utf-8")
EXAMPLE = ROOT / "configs" / "slurm" / "config.yaml"
FACTS = {
    "host": "login1",
    "user": "ada",
    "executable": "/opt/conda/bin/python3",
    "version": "3.9.2",
    "remote_dir": "/shared/projects/me/potato-training",
    "free_disk_mb": 812000,
    "path": "/usr/local/bin:/usr/bin:/bin",
    "commands": {name: f"/usr/bin/{name}" for name in COMMANDS},
}
WAY_BACK = Check("socket", ok=True, message="a socket for the agent can be forwarded to the server")


def shown_flags() -> dict[str, str]:
    """The flag of each key in the table of the page."""
    return dict(re.findall(r"^\| `(\w+)` \| `(-[^`]+)` \|", PAGE, re.MULTILINE))


def test_the_table_names_every_key_that_becomes_a_flag() -> None:
    assert list(shown_flags()) == [*FLAGS, "sbatch_args"]


@pytest.mark.parametrize("key", FLAGS)
def test_a_key_becomes_the_flag_that_the_table_shows(key: str) -> None:
    flag = shown_flags()[key]
    value = flag.partition("=")[2]
    given: Any = int(value) if key == "cpus_per_task" else value
    assert SlurmKeys.from_json({key: given}).flags() == (flag,)


def test_further_flags_are_taken_as_they_are() -> None:
    flag = shown_flags()["sbatch_args"]
    assert SlurmKeys.from_json({"sbatch_args": [flag]}).sbatch_args == (flag,)


def test_the_backend_of_the_page_is_one_that_validate_takes(tmp_path: Path) -> None:
    lines = PAGE.split("       model_training:\n", 1)[1].split("\n\n", 1)[0]
    example = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    example["model_training"] = yaml.safe_load(lines)
    example["task_dir"] = str(ROOT / "configs" / "local")
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(example), "utf-8")
    assert isinstance(load(path).model_training.backends["cluster"], Configured)


def report_of(path: Path, **facts: Any) -> CheckReport:
    backend = make_backend("cluster", load(path))
    assert isinstance(backend, SlurmBackend)
    report = HostReport.from_json({**FACTS, **facts})
    return reached("cluster", backend.settings, report, WAY_BACK, backend._placed(uses_gpu=True))


def test_the_check_of_the_example_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    _print(report_of(EXAMPLE))
    for line in capsys.readouterr().out.splitlines():
        assert f"       {line}\n" in PAGE


def test_the_messages_of_the_check_stand_in_the_page() -> None:
    report = report_of(EXAMPLE, commands={}, remote_dir="/tmp/me")
    missing = [check.message for check in report.checks if not check.ok]
    assert f"| `{missing[0].replace('login.cluster.example.org', 'HOST')}` |" in PAGE
    [warning] = report.facts["warnings"]
    assert f"| `{warning.partition(':')[0].replace('/tmp/me', '…')}` |" in PAGE


def test_the_states_of_a_job_are_shown_as_they_are_told() -> None:
    for state in (JobState("PENDING", "Priority"), JobState("RUNNING", "", "node07")):
        assert f"| `waiting for {in_words('4242', state)}` |" in PAGE


def test_a_refusal_stands_in_the_page_in_its_words() -> None:
    assert f"| `{refusal('…', 'HOST').message.rstrip('.')}` |" in PAGE


@pytest.mark.parametrize(
    ("shown", "output", "cause"),
    [
        ("JobState=TIMEOUT NodeList=node07", "", "it reached its time limit"),
        ("JobState=OUT_OF_MEMORY NodeList=node07", "", "it needed more memory than SLURM gave it"),
        ("JobState=NODE_FAIL NodeList=node07", "", "its node node07 failed"),
        ("JobState=PREEMPTED NodeList=node07", "", "it was preempted by a job that comes first"),
        ("JobState=CANCELLED NodeList=node07", "", "it was cancelled from outside"),
        ("JobState=CANCELLED NodeList=", "", "it was cancelled from outside"),
        (
            "JobState=FAILED ExitCode=127:0 NodeList=node07",
            "",
            "its interpreter /shared/envs/train/bin/python could not be started",
        ),
        ("JobState=FAILED ExitCode=0:53 NodeList=node07", "", "its folder is missing there or not writable"),
        (
            "JobState=FAILED ExitCode=1:0 NodeList=node07",
            "potato-ray: the prelude ended the job with code 1\n",
            "its prelude ended it",
        ),
    ],
)
def test_why_slurm_ended_a_job_is_told_as_the_page_says(shown: str, output: str, cause: str) -> None:
    failure = ending("4242", shown, output, None, python="/shared/envs/train/bin/python")
    assert failure is not None
    told = "SLURM job 4242 ended before the worker finished: "
    assert failure.message.startswith(told)
    assert cause in failure.message
    assert f"`{told}…`" in " ".join(PAGE.split())
    assert f"| `{cause}` |" in PAGE


def test_what_is_waited_for_takes_as_long_as_the_page_says() -> None:
    assert f"tried for {PATIENCE_S / 60:.0f} minutes, then `slurm_failed`" in PAGE
    assert f"the cancel is tried for {AFTER_GRACE_S / 60:.0f} minutes" in PAGE
    assert f"The {SETTLE_S:.0f} s are for network storage" in PAGE


def test_the_agent_by_hand_takes_the_command_line_of_the_page() -> None:
    (command,) = re.findall(r"^    potato-ray training agent (.+)$", PAGE, re.MULTILINE)
    options = _parser().parse_args(command.split())
    assert (options.backend, options.slurm_config.name) == ("cluster", "slurm.json")
    (keys,) = re.findall(r"^    (\{.+\})$", PAGE, re.MULTILINE)
    assert SlurmKeys.from_json(json.loads(keys)).job_python
