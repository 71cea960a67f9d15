"""docs/agents.md says what agent and server do; its unit is one that systemd takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from parts import need_command

from potato_ray.agent import command_line as command
from potato_ray.agent import protocol
from potato_ray.agent.settings import DEFAULT_WORKDIR
from potato_ray.backends.agent_check import NO_TOKEN, NOBODY
from potato_ray.backends.agent_following import LATE_SHARE
from potato_ray.backends.agents_seen import ADDRESS, PRESENT_S, one_file_commands, start_command
from potato_ray.cli.registering import token_lines
from potato_ray.config.backends import AgentBackend
from potato_ray.config.places import keys_of
from potato_ray.job.spec import Limits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text("utf-8")
UNIT = ROOT / "docs" / "potato-training-agent.service"


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of a section's table by their first cell, without the marks of code."""
    lines = [line for line in section(heading).splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells[1:]}


def test_every_option_of_the_agent_is_in_its_table_and_no_other() -> None:
    actions = command._parser()._actions
    options = {name for action in actions for name in action.option_strings if name.startswith("--")}
    assert set(rows("What the agent takes")) == options - {"--help"}


def test_the_agents_exits_and_its_default_folder_are_told() -> None:
    told = section("What the agent takes")
    assert (command.EXIT_FINISHED, command.EXIT_ERROR, command.EXIT_USAGE) == (0, 1, 2)
    assert (command.EXIT_PROTOCOL, command.EXIT_INTERRUPTED) == (3, 130)
    assert "130 after Ctrl-C), 1 when it cannot work" in told
    assert f"default `{DEFAULT_WORKDIR}`" in told


def test_every_key_of_an_agent_backend_is_in_its_table_with_its_default() -> None:
    told = rows("Keys of an agent backend")
    assert set(told) == set(keys_of(AgentBackend))
    fields = AgentBackend.model_fields
    assert told["heartbeat_timeout_s"][0] == f"`{fields['heartbeat_timeout_s'].default:g}`"
    assert (told["queue_timeout_s"][0], fields["queue_timeout_s"].default) == ("none", None)


def test_what_register_prints_is_told_to_the_letter() -> None:
    address = "http://server.example.org:8000"
    for line in list(token_lines("lab-workstation", "prt_…", address))[:5]:
        assert f"       {line}\n" in PAGE


def test_the_way_to_the_one_file_is_the_one_that_register_prints() -> None:
    fetch, start = one_file_commands("lab-workstation", "https://potato.example.org")
    assert f"    {fetch}\n" in PAGE
    assert f"    {start} --python" in PAGE
    assert start_command("NAME") == f"potato-ray training agent --server {ADDRESS} --backend NAME"


def test_the_times_are_those_of_the_code() -> None:
    broken = section("What happens when the link breaks")
    heartbeat_s = AgentBackend.model_fields["heartbeat_timeout_s"].default
    assert f"{heartbeat_s:g} s stands for" in broken
    assert f"After {LATE_SHARE * heartbeat_s:g} s its step says" in broken
    assert f"{Limits().lost_after_s:g} s for the longer" in broken
    assert (protocol.DOWNLOAD_REQUESTS, protocol.MAX_WAIT_S) == (5, 50)
    assert "in five requests in all" in broken
    assert "waits 50 s" in section("Proxies and certificates")
    assert f"heard of in the last {PRESENT_S:g} s" in section("When something is wrong")


def test_the_sentences_are_those_of_the_code() -> None:
    told = rows("When something is wrong")
    assert NO_TOKEN in told
    assert NOBODY.partition(",")[0] in told


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE):
        assert (ROOT / "docs" / target).resolve().exists(), target


@pytest.fixture
def verify(tmp_path: Path):
    """What `systemd-analyze --user verify` says of a unit; "" where it has nothing to say."""
    program = need_command("systemd-analyze")
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)

    def say(text: str) -> str:
        unit = tmp_path / UNIT.name
        unit.write_text(text, "utf-8")
        done = subprocess.run(
            [program, "--user", "--man=no", "verify", str(unit)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit {done.returncode}")

    return say


def test_systemd_takes_the_unit(verify) -> None:
    # systemd looks whether the interpreter is there; where the system has none, ours stands in.
    assert verify(UNIT.read_text("utf-8").replace("/usr/bin/python3", sys.executable)) == ""


def test_systemd_would_name_a_misspelt_key(verify) -> None:
    text = UNIT.read_text("utf-8").replace("/usr/bin/python3", sys.executable)
    assert "Restrt" in verify(text.replace("Restart=on-failure", "Restrt=on-failure"))


def test_the_unit_starts_the_agent_with_options_that_it_has() -> None:
    text = UNIT.read_text("utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    _, program, *arguments = line.split()
    assert program.endswith("agent.pyz")
    options = command._parser().parse_args(arguments)
    assert (options.server, options.backend) == ("https://potato.example.org", "lab-workstation")
    assert str(options.token_file).endswith("/token")


def test_the_unit_does_not_start_again_what_cannot_work() -> None:
    text = UNIT.read_text("utf-8")
    assert f"RestartPreventExitStatus={command.EXIT_USAGE} {command.EXIT_PROTOCOL}\n" in text
    for setting in re.findall(r"`([A-Z][A-Za-z]+=[^`/]+)`", section("As a service")):
        assert f"{setting}\n" in text, setting
