"""`training register` and `training check` of an agent backend: the token, what to type, who is there."""

from __future__ import annotations

import io
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from agent_link import AgentLink
from served_project import KEY
from serving import serving
from training_libraries import NUMERICAL

from potato_ray.agent_tokens import digest_of
from potato_ray.cli.checking import run_check
from potato_ray.cli.registering import run_register, server_seen, token_lines
from potato_ray.cli.runs import reader_of
from potato_ray.cli.through_server import Server
from potato_ray.client.records import AgentToken
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import Conflict, NotFound, PotatoRayError
from potato_ray.lock import SERVING, ProjectLock, holder, holding
from potato_ray.registry.agents import AgentSeen
from potato_ray.registry.runs import NewRun
from potato_ray.registry.states import State
from potato_ray.registry.store import Registry
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

BACKENDS = {
    "workstation": {"type": "agent", "description": "under the desk"},
    "gpu-server": {"type": "ssh", "host": "gpu.example.org"},
}


@pytest.fixture
def lab(project: ProjectConfig) -> ProjectConfig:
    """The project with an agent backend and one of another type."""
    body = yaml.safe_load(project.path.read_text("utf-8"))
    body["admin_api_key"] = KEY
    body["model_training"]["backends"] = BACKENDS
    project.path.write_text(yaml.safe_dump(body), "utf-8")
    return load(project.path)


@pytest.fixture
def served(lab: ProjectConfig) -> Iterator[ProjectLock]:
    """Somebody serves the project; a test says where with `describe`."""
    lock = ProjectLock(lab.state_dir)
    lock.acquire(SERVING)
    yield lock
    lock.release()


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was registered at the server, which answers each time with the same token."""
    asked: list[str] = []

    def register(server: Server, name: str) -> dict[str, str]:
        asked.append(name)
        return {"backend": name, "token": "prt_from_the_server"}

    monkeypatch.setattr(Server, "register_backend", register)
    return asked


def register(lab: ProjectConfig, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    assert run_register("workstation", lab.path, as_json=False) == 0
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def test_without_a_server_the_token_and_the_commands_are_printed_to_the_letter(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, _ = register(lab, capsys)
    token = lines[1]
    assert lines[:5] == [
        "Token for backend 'workstation' (shown once; registering again replaces it):",
        token,
        "On the training machine:",
        f"export POTATO_TRAINING_TOKEN={token}",
        "potato-ray training agent --server http://<this-server>:8000 --backend workstation",
    ]
    assert lines[5] == "Put the server's address in place of <this-server>."
    assert token.startswith("prt_")
    assert len(token) == 47


def test_only_the_tokens_hash_is_kept_and_registering_again_replaces_it(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (register(lab, capsys)[0][1] for _ in range(2))
    reader = reader_of(lab)
    assert reader.backend_of_token(digest_of(second)) == "workstation"
    assert reader.backend_of_token(digest_of(first)) is None
    for path in lab.task_dir.rglob("*"):
        assert not path.is_file() or second.encode() not in path.read_bytes(), path


def seen_at(lab: ProjectConfig, last_seen: float) -> None:
    with Registry(lab.registry_path, lab.annotation_task_name) as registry:
        registry.put_agents_seen([AgentSeen("workstation", "a1", "ws1", last_seen=last_seen)])


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Somebody at a terminal, who answers this."""
    monkeypatch.setattr("potato_ray.cli.registering._is_terminal", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))


def test_a_token_that_is_replaced_is_named_with_its_times(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    _, first = register(lab, capsys)
    _, second = register(lab, capsys)
    assert "this replaced" not in first
    assert re.search(r"Note: this replaced the one issued \d{4}-.* UTC, never used\. An agent", second)
    seen_at(lab, time.time() + 60)
    assert re.search(r"UTC, last seen \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", register(lab, capsys)[1])


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_at_a_terminal_a_token_is_replaced_by_nobody_who_does_not_say_yes(
    lab: ProjectConfig,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    token = register(lab, capsys)[0][1]
    answering(monkeypatch, answer)
    assert run_register("workstation", lab.path, as_json=False) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Backend 'workstation' has a token: the one issued" in said.err
    assert reader_of(lab).backend_of_token(digest_of(token)) == "workstation"


def taken(lab: ProjectConfig) -> str:
    """A run that an agent has in hand."""
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",), backend="workstation")
    with Registry(lab.registry_path, lab.annotation_task_name) as registry:
        run = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=1)
        registry.begin(run.run_id, None, 1)
        registry.transition(run.run_id, 1, State.RUNNING)
    return run.run_id


def test_the_runs_that_a_new_token_may_cost_are_named_before_and_after(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lab, capsys)
    run_id = taken(lab)
    answering(monkeypatch, "y\n")
    _, err = register(lab, capsys)
    assert f"Its agents have runs in hand: {run_id}. Replace it? [y/N]" in err
    assert f"Warning: Run {run_id} is in the hands of an agent with the old token." in err
    assert "--token-file within 120 s (heartbeat_timeout_s)" in err


@pytest.mark.parametrize(("answer", "sure"), [("y\n", False), ("Yes\n", False), ("", True)])
def test_a_yes_beforehand_or_when_asked_replaces_it(
    lab: ProjectConfig,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    sure: bool,
) -> None:
    token = register(lab, capsys)[0][1]
    answering(monkeypatch, answer)
    assert run_register("workstation", lab.path, as_json=False, sure=sure) == 0
    assert ("[y/N]" in capsys.readouterr().err) != sure
    assert reader_of(lab).backend_of_token(digest_of(token)) is None


def test_nobody_is_asked_for_a_first_token(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "")
    assert run_register("workstation", lab.path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["replaced"] is None


def test_the_one_file_agent_is_fetched_without_the_token_on_a_command_line(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, _ = register(lab, capsys)
    fetch, start = lines[-2:]
    assert fetch.endswith("| curl --fail -H @- -o agent.pyz http://<this-server>:8000/api/training/agent.pyz")
    assert start == "python3 agent.pyz --server http://<this-server>:8000 --backend workstation"
    assert lines[1] not in fetch + start


def test_json_has_the_token_and_no_address_while_nobody_knows_it(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_register("workstation", lab.path, as_json=True) == 0
    body = json.loads(capsys.readouterr().out)
    assert set(body) == {"backend", "token", "server", "replaced"}
    assert (body["backend"], body["server"]) == ("workstation", None)


@pytest.mark.parametrize("name", ["gpu-server", "local"])
def test_a_backend_of_another_type_has_no_token(lab: ProjectConfig, name: str) -> None:
    with pytest.raises(Conflict) as refused:
        run_register(name, lab.path, as_json=False)
    assert refused.value.code == "not_an_agent_backend"
    assert "workstation" in refused.value.evidence


def test_an_unknown_backend_is_not_found(lab: ProjectConfig) -> None:
    with pytest.raises(NotFound, match="There is no backend 'workstaton'"):
        run_register("workstaton", lab.path, as_json=False)


def test_a_name_with_blanks_is_quoted_in_commands() -> None:
    lines = list(token_lines("under the desk", "prt_x", "http://ws:8000"))
    assert lines[4].endswith("--backend 'under the desk'")
    assert lines[-1].endswith("--backend 'under the desk'")


# Through a server ----------------------------------------------------------------------------------


def test_a_server_on_loopback_cannot_be_reached_from_elsewhere_and_that_is_said(
    lab: ProjectConfig, served: ProjectLock, through: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    served.describe(purpose=SERVING, url="http://127.0.0.1:8123", listens_on="127.0.0.1")
    lines, err = register(lab, capsys)
    assert through == ["workstation"]
    assert lines[1] == "prt_from_the_server"
    assert lines[4] == "potato-ray training agent --server http://127.0.0.1:8123 --backend workstation"
    assert "in place of" not in "".join(lines)
    assert "listens on 127.0.0.1 alone, so an agent on another machine cannot reach it" in err
    assert "--host" in err
    assert "reverse proxy with TLS" in err
    assert "plain http" not in err


def test_a_server_on_an_address_of_its_own_is_named_with_a_warning_of_plain_http(
    lab: ProjectConfig, served: ProjectLock, through: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    served.describe(purpose=SERVING, url="http://10.1.2.3:8000", listens_on="10.1.2.3")
    lines, err = register(lab, capsys)
    assert "--server http://10.1.2.3:8000 " in lines[4]
    assert "over plain http the token, the texts and the predictions can be read" in err
    assert "cannot reach" not in err


@pytest.mark.parametrize(
    ("url", "listens_on"),
    [("http://127.0.0.1:8000", "0.0.0.0"), ("http://[::1]:8000", "::")],  # noqa: S104 - nothing is bound
)
def test_a_server_on_every_address_is_named_by_its_machine(
    lab: ProjectConfig,
    served: ProjectLock,
    through: list[str],
    capsys: pytest.CaptureFixture[str],
    url: str,
    listens_on: str,
) -> None:
    served.describe(purpose=SERVING, url=url, listens_on=listens_on)
    lines, err = register(lab, capsys)
    assert f"--server http://{socket.gethostname()}:8000 " in lines[4]
    assert "is what this machine calls itself" in err


def test_a_server_that_does_not_say_where_it_listens_is_named_by_its_address(
    lab: ProjectConfig, served: ProjectLock
) -> None:
    served.describe(purpose=SERVING, url="http://127.0.0.1:8000")
    seen = server_seen(lab)
    assert (seen.address, seen.is_here_alone, seen.is_everywhere) == ("http://127.0.0.1:8000", False, False)


def test_another_command_that_holds_the_project_is_no_server(lab: ProjectConfig) -> None:
    with holding(lab.state_dir, "potato-ray training run"):
        assert not server_seen(lab).is_up


def test_a_backend_that_the_server_does_not_know_yet_asks_for_its_restart(
    lab: ProjectConfig, served: ProjectLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(server: Server, name: str) -> dict[str, str]:
        raise NotFound(f"There is no backend '{name}'.")

    monkeypatch.setattr(Server, "register_backend", unknown)
    served.describe(purpose=SERVING, url="http://127.0.0.1:8000", listens_on="127.0.0.1")
    with pytest.raises(NotFound) as missing:
        run_register("workstation", lab.path, as_json=False)
    assert missing.value.next_step == "Start the server again, then register it."


@pytest.fixture
def up(lab: ProjectConfig, served: ProjectLock, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The project's real application on a port; its address."""
    monkeypatch.delenv("POTATO_ADMIN_API_KEY", raising=False)
    link = AgentLink(lab)
    app = create_app(ServerContext(lab, reader_of(lab), link, admin_key=KEY))
    with serving(app) as url:
        served.describe(purpose=SERVING, url=url, listens_on="127.0.0.1")
        yield url
    link.close()


def test_the_running_server_issues_the_token(
    lab: ProjectConfig, up: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, _ = register(lab, capsys)
    assert reader_of(lab).backend_of_token(digest_of(lines[1])) == "workstation"
    assert lines[4] == f"potato-ray training agent --server {up} --backend workstation"


def test_the_running_server_refuses_a_backend_of_another_type(lab: ProjectConfig, up: str) -> None:
    with pytest.raises(PotatoRayError) as refused:
        run_register("gpu-server", lab.path, as_json=False)
    assert refused.value.code == "not_an_agent_backend"


def test_nothing_that_prints_an_issued_token_shows_it() -> None:
    assert "prt_" not in repr(AgentToken("workstation", "prt_secret"))


# Checking ------------------------------------------------------------------------------------------


def seen(lab: ProjectConfig, *agents: AgentSeen) -> None:
    with Registry(lab.registry_path, project=lab.annotation_task_name) as registry:
        registry.put_token("workstation", digest_of("prt_x"))
        registry.put_agents_seen(agents)


def agent(**facts: Any) -> AgentSeen:
    gpus = ({"uuid": "GPU-1", "name": "NVIDIA A100", "total_mb": 40960, "free_mb": 39000},)
    known: dict[str, Any] = {"host": "ws1", "python": "3.8.18", "gpus": gpus, "last_seen": time.time()}
    return AgentSeen("workstation", **{"agent_id": "a1", **known, **facts})


def check(lab: ProjectConfig, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run_check("workstation", lab.path, as_json=False)
    return code, capsys.readouterr().out


def test_without_a_token_a_run_could_not_start_and_the_command_is_named(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = check(lab, capsys)
    assert code == 1
    assert "NO  token: no token issued yet" in said
    assert "potato-ray training register workstation config.yaml" in said
    assert not lab.registry_path.exists()


def test_without_an_agent_a_run_could_start_with_a_warning_and_the_command(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(lab)
    code, said = check(lab, capsys)
    assert code == 0
    assert "last seen never" in said
    assert "  -  agents: none was ever seen" in said
    assert "Warning: No server has the project at present, and agents ask a server for work." in said
    assert "Warning: No agent is polling at present, so a run would wait for one." in said
    assert "potato-ray training agent --server http://<this-server>:8000 --backend workstation" in said


def test_what_an_agent_lacks_is_told_with_the_line_that_installs_it(
    lab: ProjectConfig, served: ProjectLock, capsys: pytest.CaptureFixture[str]
) -> None:
    served.describe(purpose=SERVING, url="http://10.1.2.3:8000", listens_on="10.1.2.3")
    old = agent(agent_id="a2", host="ws2", last_seen=time.time() - 7200, executable="/old", lacks=("torch",))
    seen(lab, agent(executable="/my env/bin/python", lacks=("peft", "torch", "<odd>")), old)
    code, said = check(lab, capsys)
    assert code == 0
    assert " -  trainer: hf-text-classification: /my env/bin/python on ws1 lacks torch, peft.\n" in said
    line = "'/my env/bin/python' -m pip install torch transformers peft accelerate"
    assert f"      Run on ws1: {line}\n" in said
    assert "sklearn-text" not in said
    assert "/old" not in said


def test_the_warning_names_the_server_that_is_there(
    lab: ProjectConfig, served: ProjectLock, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(lab)
    served.describe(purpose=SERVING, url="http://10.1.2.3:8000", listens_on="10.1.2.3")
    said = check(lab, capsys)[1]
    assert "--server http://10.1.2.3:8000 --backend" in said
    assert "No server" not in said


def test_agents_are_listed_with_what_they_have_and_do(
    lab: ProjectConfig, served: ProjectLock, capsys: pytest.CaptureFixture[str]
) -> None:
    served.describe(purpose=SERVING, url="http://10.1.2.3:8000", listens_on="10.1.2.3")
    busy = agent(agent_id="a2", host="ws2", gpus=(), run_id="r7")
    gone = agent(agent_id="a3", host="ws3", last_seen=time.time() - 7200)
    seen(lab, agent(), busy, gone)
    code, said = check(lab, capsys)
    assert code == 0
    card = "NVIDIA A100 (39000 of 40960 MB free)"
    assert f"ok  agent: ws1, Python 3.8.18, {card}, seen just now, waiting for a run" in said
    assert "ws2, Python 3.8.18, no GPU, seen just now, busy with run r7" in said
    assert f" -  agent: ws3, Python 3.8.18, {card}, seen 2 h ago, not heard of any more" in said
    assert "Warning" not in said


def test_several_starts_in_one_workdir_are_one_agent(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [
        agent(agent_id=f"b{n}", workdir="/w", last_seen=time.time() - 3600 * (n + 1), gpus=())
        for n in range(4)
    ]
    elsewhere = agent(agent_id="c", workdir="/other", last_seen=time.time() - 86400 * 3, gpus=())
    seen(lab, *before, elsewhere)
    _, said = check(lab, capsys)
    assert said.count("agent: ws1") == 2
    assert "seen 60 min ago, not heard of any more, started 4 times in that workdir" in said


def test_all_agents_that_are_there_are_listed_wherever_they_work(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(lab, *(agent(agent_id=f"a{n}", workdir="/w", gpus=()) for n in range(2)))
    assert check(lab, capsys)[1].count("waiting for a run") == 2


def test_with_agents_that_have_left_alone_the_check_warns(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(lab, agent(has_left=True))
    code, said = check(lab, capsys)
    assert (code, "has left" in said) == (0, True)
    assert "Warning: No agent is polling at present" in said


def test_what_an_agent_says_of_itself_writes_nothing_of_its_own_into_the_terminal(
    lab: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(lab, agent(host="\x1b[2Jws\n  ok  token", gpus=({"name": "A\x1b100", "free_mb": "lots"},)))
    _, said = check(lab, capsys)
    assert "\x1b" not in said
    assert "?[2Jws?  ok  token, Python 3.8.18, A?100, seen" in said


def test_json_tells_all_agents(
    lab: ProjectConfig, served: ProjectLock, capsys: pytest.CaptureFixture[str]
) -> None:
    served.describe(purpose=SERVING, url="http://10.1.2.3:8000", listens_on="10.1.2.3")
    seen(lab, agent())
    run_check("workstation", lab.path, as_json=True)
    body = json.loads(capsys.readouterr().out)
    assert (body["ok"], body["facts"]["n_present"], body["facts"]["warnings"]) == (True, 1, [])
    assert body["facts"]["agents"][0]["gpus"][0]["name"] == "NVIDIA A100"
    assert "token_sha256" not in json.dumps(body)


# How it starts -------------------------------------------------------------------------------------

PROGRAM = """
import sys
from potato_ray.cli import main
try:
    main()
except SystemExit:
    pass
print("LOADED", *{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.parametrize("command", ["register", "check"])
def test_register_and_check_load_nothing_heavy(lab: ProjectConfig, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "training", command, "workstation", str(lab.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & (NUMERICAL | {"ray", "fastapi", "starlette", "httpx"}) == set()


def test_the_project_is_nobodys_after_registering(lab: ProjectConfig) -> None:
    run_register("workstation", lab.path, as_json=True)
    assert holder(lab.state_dir) is None
    assert not (lab.state_dir / "server.json").exists()
