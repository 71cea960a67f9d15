"""The report of the check on a login node: its commands, its Pythons, its folder, and what it cannot see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from potato_ray.backends import slurm
from potato_ray.backends.base import Check, CheckReport
from potato_ray.backends.slurm import SlurmBackend
from potato_ray.backends.slurm_check import COMMANDS, NODES_UNSEEN
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.backends.ssh_check import modules_of_trainers
from potato_ray.errors import RunFailed
from potato_ray.ssh import Destination

FACTS: dict[str, Any] = {
    "version": "3.9.2",
    "executable": "/usr/bin/python3",
    "python": "/usr/bin/python3",
    "host": "login1.example.org",
    "user": "ada",
    "remote_dir": "/shared/p",
    "problem": "",
    "noexec": True,
    "free_disk_mb": 52000,
    "path": "/usr/bin",
    "commands": {name: f"/opt/slurm/bin/{name}" for name in COMMANDS},
}
KEYS = {"partition": "gpu", "gres": "gpu:1", "job_python": "/shared/env/bin/python"}
WAY_BACK = Check("socket", ok=True, message="fine")


class Line:
    """A login that is asked and left; `asked` are the requests."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.is_open = True

    def ask(self, question: Any) -> Any:
        return question(self)

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(slurm, "look_for_way_back", lambda line: WAY_BACK)
    return Line()


@pytest.fixture
def checked(line: Line, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The report of a check that is answered with the usual facts, but for those given."""

    def check(facts: dict[str, Any] | None = None, **settings: Any) -> CheckReport:
        def answer(there: Line, python: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
            there.asked.append({"python": python, **request})
            return {**FACTS, **(facts or {})}

        monkeypatch.setattr(slurm, "one_answer", answer)
        given = {"keys": KEYS, "remote_dir": "/shared/p", "description": "cluster (slurm to login1)"}
        made = SlurmSettings(Destination("login1"), **{**given, **settings})
        return SlurmBackend("cluster", made, line=line).check()  # type: ignore[arg-type]

    return check


def said(report: CheckReport, name: str) -> list[str]:
    return [check.message for check in report.checks if check.name == name]


def test_the_report_names_commands_pythons_folder_and_what_a_run_would_get(checked: Any) -> None:
    report = checked()
    assert report.ok
    assert report.summary == "cluster: slurm to login1, gres gpu:1"
    assert said(report, "ssh") == ["logged in to login1.example.org as ada"]
    assert said(report, "slurm") == ["sbatch, squeue, scancel, scontrol in /opt/slurm/bin"]
    assert said(report, "python") == ["Python 3.9.2 (/usr/bin/python3), for the agent on the login node"]
    assert said(report, "job_python") == ["a job on a compute node runs /shared/env/bin/python"]
    assert said(report, "device") == [
        "a run would get the GPU that SLURM gives it for partition gpu, gres gpu:1"
    ]
    assert said(report, "disk") == ["52000 MB free for /shared/p"]
    assert report.facts["warnings"] == []


def test_it_is_one_login_and_one_look_that_installs_and_imports_nothing(checked: Any, line: Line) -> None:
    checked(env={"PATH": "/opt/slurm/bin"}, python="/opt/python3")
    [request] = line.asked
    assert request == {
        "python": "/opt/python3",
        "do": "probe",
        "remote_dir": "/shared/p",
        "env": {"PATH": "/opt/slurm/bin"},
        "commands": [*COMMANDS, "/shared/env/bin/python"],
        "modules": list(modules_of_trainers()),
        "modules_of": "/shared/env/bin/python",
        "trial": ["--partition=gpu", "--gres=gpu:1"],
    }
    assert not line.is_open


def test_it_says_that_the_compute_nodes_cannot_be_seen(checked: Any) -> None:
    [note] = [check for check in checked().checks if check.name == "packages"]
    assert note.is_note
    assert note.message == NODES_UNSEEN


def test_the_packages_of_the_job_s_python_are_told_as_the_login_node_sees_them(checked: Any) -> None:
    absent = {**dict.fromkeys(modules_of_trainers(), "1.0"), "torch": None, "peft": None}
    report = checked({"modules": absent})
    assert report.ok
    notes = {each.message.partition(":")[0]: each for each in report.checks if each.name == "trainer"}
    assert all(note.is_note for note in notes.values())
    assert notes["sklearn-text"].message == "sklearn-text: ready, as login1.example.org sees it"
    lacks = "/shared/env/bin/python on login1.example.org lacks torch, peft."
    assert notes["hf-text-classification"].message == f"hf-text-classification: {lacks}"
    line = "/shared/env/bin/python -m pip install torch transformers peft accelerate"
    assert notes["hf-text-classification"].next_step == f"Run on login1.example.org: {line}"


def test_of_a_python_that_the_login_node_does_not_have_no_packages_are_told(checked: Any) -> None:
    assert said(checked({"modules": None}), "trainer") == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sbatch", "login1 has no sbatch on PATH, so it cannot submit jobs"),
        ("squeue", "login1 has no squeue on PATH, so it cannot follow jobs"),
        ("scancel", "login1 has no scancel on PATH, so it cannot cancel jobs"),
    ],
)
def test_a_command_that_is_not_on_path_keeps_runs_from_starting(
    checked: Any, command: str, words: str
) -> None:
    report = checked({"commands": {**FACTS["commands"], command: None}})
    [failed] = [check for check in report.checks if not check.ok]
    assert failed.message == words
    assert "env" in failed.next_step


STARTS = "start it at 2026-11-30T13:04:36 using 1 processors on nodes n1 in partition gpu"


@pytest.mark.parametrize(
    ("code", "out", "ok", "words"),
    [
        (
            0,
            f"sbatch: Job 4242 to {STARTS.replace(' it', '')}\n",
            True,
            f"SLURM would take the job, and could {STARTS}",
        ),
        (0, "", True, "SLURM would take the job"),
        (
            1,
            "sbatch: error: invalid partition specified: gpu\n"
            "allocation failure: Invalid partition name specified\n",
            False,
            "SLURM would refuse the job: Invalid partition name specified (partition gpu, gres gpu:1)",
        ),
        (
            1,
            "allocation failure: Requested node configuration is not available\n",
            True,
            "SLURM does not say when a job would start: Requested node configuration is not available",
        ),
        (
            None,
            "sbatch did not answer within 25 s",
            True,
            "SLURM does not say when a job would start: sbatch did not answer within 25 s",
        ),
    ],
)
def test_slurm_is_asked_whether_it_would_take_a_job_like_a_run_s(
    checked: Any, code: int | None, out: str, ok: bool, words: str
) -> None:
    report = checked({"trial": {"code": code, "out": out}})
    assert report.ok is ok
    assert said(report, "job") == [words]


def test_the_job_that_is_tried_asks_for_what_a_run_s_asks_for(checked: Any, line: Line) -> None:
    checked(keys={**KEYS, "cpus_per_task": 2, "sbatch_args": ["-C", "a100", '--comment="two words"']})
    flags = ["--partition=gpu", "--gres=gpu:1", "--cpus-per-task=2", "-C", "a100", "--comment=two words"]
    assert line.asked[0]["trial"] == flags


def test_a_quote_that_is_not_closed_is_left_to_the_submission(checked: Any, line: Line) -> None:
    assert checked(keys={**KEYS, "sbatch_args": ['--comment="two']}).ok
    assert line.asked[0]["trial"] is None


def test_an_interpreter_that_the_login_node_does_not_have_is_to_be_looked_for(checked: Any) -> None:
    report = checked({"commands": {**FACTS["commands"], "/shared/env/bin/python": None}})
    assert report.ok
    [message] = said(report, "job_python")
    assert message.endswith("on the login node it is not to be found, so look whether it is there")


def test_without_scontrol_runs_start_all_the_same(checked: Any) -> None:
    report = checked({"commands": {**FACTS["commands"], "scontrol": None}})
    assert report.ok
    assert said(report, "slurm")[1].startswith("there is no scontrol")


def test_the_path_that_is_shown_is_the_one_that_was_searched(checked: Any) -> None:
    assert said(checked(), "path") == ["PATH there: /usr/bin"]
    assert said(checked(env={"PATH": "/opt/slurm/bin"}), "path") == ["PATH there: /opt/slurm/bin"]


@pytest.mark.parametrize("where", ["/tmp", "/tmp/me", "/var/tmp/me", "/dev/shm/me"])
def test_a_folder_that_each_machine_has_for_itself_is_warned_of(checked: Any, where: str) -> None:
    report = checked({"remote_dir": where})
    [warning] = report.facts["warnings"]
    assert report.ok
    assert warning.startswith(f"remote_dir {where} is local to each machine")


def test_a_job_python_that_is_not_named_is_warned_of(checked: Any) -> None:
    report = checked(keys={**KEYS, "job_python": "python3"}, names_job_python=False)
    assert said(report, "job_python") == ["a job on a compute node runs python3, the value of python"]
    [warning] = report.facts["warnings"]
    assert "job_python is missing, so the job on the compute node will run python3" in warning


def test_without_gpus_among_what_it_asks_for_a_job_gets_the_cpu(checked: Any) -> None:
    report = checked(keys={"partition": "short"})
    assert (report.summary, report.facts["device"]) == ("cluster: slurm to login1, CPU", "cpu")
    assert said(report, "device") == ["a run would get the CPU: no gres asks for a GPU"]


@pytest.mark.parametrize(
    ("facts", "name"), [({"version": "3.6.8"}, "python"), ({"problem": "/shared: Read-only"}, "disk")]
)
def test_a_login_node_on_which_no_agent_could_work_is_not_ok(
    checked: Any, facts: dict[str, Any], name: str
) -> None:
    failed = [check for check in checked(facts).checks if not check.ok]
    assert [check.name for check in failed] == [name]
    assert failed[0].next_step


def test_the_facts_are_data_with_every_flag_of_a_job(checked: Any) -> None:
    facts = checked().facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["flags"] == {"partition": "gpu", "gres": "gpu:1"}
    assert facts["commands"]["sbatch"] == "/opt/slurm/bin/sbatch"


def test_a_login_node_that_cannot_be_reached_is_told_in_ssh_s_words(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise RunFailed("ssh to login1 failed: Permission denied", code="ssh_failed", next_step="Check user.")

    monkeypatch.setattr(slurm, "one_answer", refuse)
    made = SlurmSettings(Destination("login1"), keys=KEYS)
    report = SlurmBackend("cluster", made, line=line).check()  # type: ignore[arg-type]
    assert (report.ok, report.type) == (False, "slurm")
    assert report.checks[0].message == "ssh to login1 failed: Permission denied"
