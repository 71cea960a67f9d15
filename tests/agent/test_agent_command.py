"""The agent as a process: signals, exit codes, what its start costs, what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_at_work import AgentToKill, offer
from protocol_server import HANG, TOKEN, ProtocolServer

from potato_ray.agent import command_line, loop
from potato_ray.agent.command_line import main
from potato_ray.agent.stop_request import StopRequest
from potato_ray.job.folder import JobFolder
from potato_ray.job.processes import is_alive
from potato_ray.shipping.agent_file import agent_file

Start = Callable[[], AgentToKill]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def process(server: ProtocolServer, tmp_path: Path) -> Iterator[Start]:
    """Starts the command as a process of its own."""
    started: list[AgentToKill] = []

    def start() -> AgentToKill:
        started.append(AgentToKill(server, tmp_path / "work"))
        return started[-1]

    yield start
    for agent in started:
        agent.kill()


def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "work" / "jobs" / "run-1.1")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_an_idle_agent_ends_at_the_first_signal(
    server: ProtocolServer, process: Start, number: int, code: int
) -> None:
    agent = process()
    server.wait_for(lambda: server.claims)
    ended, said = agent.end(number, within_s=2.0)
    assert ended == code
    assert said.splitlines()[-1].endswith("stopped")


def test_at_the_first_signal_the_job_in_hand_is_finished(
    server: ProtocolServer, process: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = process()
    server.wait_for(lambda: len(told.events) >= 5)
    agent.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    (folder(tmp_path).path / "go").touch()
    code, said = agent.end()
    assert code == 0
    assert told.result is not None
    assert told.result["exit"]["code"] == 0
    assert "a second signal cancels it" in said
    assert len(server.claims) == 1


def test_at_the_second_signal_the_job_is_cancelled_and_told(
    server: ProtocolServer, process: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = process()
    server.wait_for(lambda: len(told.events) >= 5)
    processes = folder(tmp_path).read_processes()
    assert processes is not None
    code, _ = agent.end(signal.SIGTERM, signal.SIGTERM)
    assert code == 0
    assert told.result is not None
    assert told.result["exit"]["reason"] == "cancelled"
    assert told.result["failure"]["code"] == "killed"
    assert not is_alive(processes.worker)


def test_at_the_second_signal_a_download_is_ended_and_told(
    server: ProtocolServer, process: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("bundle", HANG)
    agent = process()
    server.wait_for(lambda: "bundle" in server.requests)
    agent.end(signal.SIGTERM, signal.SIGTERM, within_s=3.0)
    assert told.result is not None
    assert told.result["failure"]["code"] == "killed"


def test_at_the_second_signal_an_end_that_cannot_be_told_is_left_to_the_next_agent(
    server: ProtocolServer, process: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", *[HANG] * 3)
    agent = process()
    server.wait_for(lambda: "result" in server.requests)
    code, said = agent.end(signal.SIGTERM, signal.SIGTERM, within_s=4.0)
    assert code == 0
    assert "the next agent here tells it" in said
    assert told.result is None
    server.forget_orders()
    process()
    server.wait_for(lambda: told.result)


def test_another_protocol_ends_the_process_with_its_own_code(server: ProtocolServer, process: Start) -> None:
    server.version = "2"
    code, said = process().end()
    assert code == 3
    assert "version 1" in said
    assert "version 2" in said


def test_a_second_agent_in_the_same_folder_is_refused_with_the_pid_of_the_first(
    server: ProtocolServer, process: Start
) -> None:
    first = process()
    server.wait_for(lambda: server.claims)
    code, said = process().end()
    assert code == 1
    assert f"process {first.process.pid}" in said


def test_the_token_is_nowhere_but_in_the_requests(
    server: ProtocolServer, process: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = process()
    server.wait_for(lambda: len(told.events) >= 5)
    processes = folder(tmp_path).read_processes()
    assert processes is not None
    for pid in (processes.launcher.pid, processes.worker.pid, agent.process.pid):
        assert server.token not in Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    for pid in (processes.launcher.pid, processes.worker.pid):
        assert server.token not in Path(f"/proc/{pid}/environ").read_text("utf-8", "replace")
    (folder(tmp_path).path / "go").touch()
    _, said = agent.end(signal.SIGTERM)
    assert server.token not in said
    assert told.lease not in said
    for path in (tmp_path / "work").rglob("*"):
        assert not path.is_file() or server.token.encode() not in path.read_bytes()


def test_workers_cannot_look_into_the_agents_memory() -> None:
    program = "import os; from potato_ray.agent.privacy import hide_memory; hide_memory()"
    program += "; print(os.stat('/proc/self/environ').st_uid, os.getuid())"
    owner, _ = run("-c", program, module="").stdout.split()
    assert owner == "0"  # also where the agent is somebody else's process


def run(*arguments: str, module: str = "potato_ray.agent") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "POTATO_TRAINING_TOKEN"}
    return subprocess.run(
        [sys.executable, *(["-m", module] if module else []), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
        cwd=REPOSITORY,
        check=False,
    )


def test_a_signal_that_is_ignored_at_the_start_stays_so() -> None:
    program = """
import signal
from potato_ray.agent.stop_request import StopRequest
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
StopRequest().install()
print(*(signal.getsignal(each) == signal.SIG_IGN for each in (signal.SIGINT, signal.SIGHUP)))
"""
    assert run("-c", program, module="").stdout.split() == ["True", "False"]


def test_wrong_usage_has_a_code_of_its_own() -> None:
    assert run().returncode == 2


def test_help_names_what_the_agent_was_started_by(tmp_path: Path) -> None:
    python = Path(sys.executable).name
    assert run("--help").stdout.startswith(f"usage: {python} -m potato_ray.agent ")
    (tmp_path / "agent.pyz").write_bytes(agent_file().data)
    told = run(str(tmp_path / "agent.pyz"), "--help", module="")
    assert " ".join(told.stdout.split()).startswith(f"usage: {python} {tmp_path / 'agent.pyz'} [-h]")


def test_the_command_line_of_the_package_takes_the_same_options() -> None:
    command = "from potato_ray.cli import main; main()"
    told = run("-c", command, "training", "agent", "--help", module="")
    assert told.returncode == 0
    assert told.stdout.startswith("usage: potato-ray training agent ")
    assert "--token-file" in told.stdout
    missing = run("-c", command, "training", "agent", "--server", "http://127.0.0.1:9", module="")
    assert missing.returncode == 2
    assert "--backend" in missing.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{partition: gpu}", "is no JSON"),
        ('{"partitions": "gpu"}', "Did you mean partition?"),
        ("[]", "must be an object"),
        ('{"time": "4 hours"}', 'time must be a SLURM time (minutes, "MM:SS"'),
    ],
)
def test_a_file_of_slurm_keys_that_cannot_be_used_is_said_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    said: str,
) -> None:
    monkeypatch.setenv("POTATO_TRAINING_TOKEN", "prt_x")
    keys = tmp_path / "slurm.json"
    if text is not None:
        keys.write_text(text)
    options = ["--server", "http://127.0.0.1:9", "--backend", "far", "--workdir", str(tmp_path / "work")]
    assert main([*options, "--slurm-config", str(keys)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "folder", "is_warned_of"),
    [(True, "own/work", True), (True, "owned", False), (False, "own", False)],
)
def test_a_workdir_that_compute_nodes_do_not_see_as_a_rule_is_warned_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: bool,
    folder: str,
    is_warned_of: bool,
) -> None:
    monkeypatch.setenv("POTATO_TRAINING_TOKEN", TOKEN)
    monkeypatch.setattr(command_line, "_MACHINES_OWN", (str(tmp_path / "own"),))
    monkeypatch.setattr(loop, "Agent", lambda *_: SimpleNamespace(run=lambda: None))
    keys = tmp_path / "slurm.json"
    keys.write_text("{}")
    options = ["--server", "http://127.0.0.1:9", "--backend", "far", "--workdir", str(tmp_path / folder)]
    assert main([*options, *(["--slurm-config", str(keys)] if config else [])]) == 0
    said = capsys.readouterr().err
    assert (
        f"Warning: --workdir {tmp_path / folder} is local to each machine as a rule" in said
    ) is is_warned_of


def test_without_a_token_it_says_where_to_put_it(tmp_path: Path) -> None:
    told = run("--server", "http://127.0.0.1:9", "--backend", "far", "--workdir", str(tmp_path / "work"))
    assert told.returncode == 1
    assert "POTATO_TRAINING_TOKEN" in told.stderr
    assert not (tmp_path / "work").exists()


def test_an_interpreter_that_is_not_there_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POTATO_TRAINING_TOKEN", "prt_x")
    options = ["--server", "http://127.0.0.1:9", "--backend", "far", "--workdir", str(tmp_path)]
    assert main([*options, "--python", "/nowhere/python"]) == 1
    assert "/nowhere/python" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def signals_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in this process leaves our signals alone."""
    monkeypatch.setattr(StopRequest, "install", lambda self: None)


def test_the_start_is_quick_and_small(server: ProtocolServer, tmp_path: Path) -> None:
    program = """
import os, sys, time
from potato_ray.agent import command_line
from potato_ray.agent.loop import Agent
from potato_ray.job.processes import high_water_mb
Agent._next_job = lambda self: self.stop.ask()
code = command_line.main(sys.argv[1:])
print(high_water_mb(os.getpid()), time.process_time(), *sys.modules)
"""
    options = ["--server", server.url, "--backend", "far", "--workdir", str(tmp_path / "work")]
    told = subprocess.run(
        [sys.executable, "-S", "-c", program, *options],
        env={"PYTHONPATH": str(REPOSITORY), "POTATO_TRAINING_TOKEN": server.token},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    megabytes, seconds, *modules = told.stdout.split()
    assert float(megabytes) < 30
    assert float(seconds) < 0.3
    assert not {"ray", "numpy", "typer", "asyncio", "sklearn"} & set(modules)
