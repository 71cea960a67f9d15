"""The environment for a backend's packages: built once a list, and told of where it cannot be built."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from agent_at_work import offer
from forwarded import Forwarded
from host_talk import secrets_for
from wheels import make_wheel

from potato_ray.host.facts import WHOLE, environment_python


def packages(tmp_path: Path) -> dict[str, list[str]]:
    return {"packages": ["--no-index", str(make_wheel(tmp_path / "wheels"))]}


def logged_until(talk, key: str) -> tuple[list[str], dict]:
    """What was said as log lines, and the line that came behind them."""
    lines = []
    while True:
        line = talk.line()
        if "log" not in line:
            assert key in line, (line, lines)
            return lines, line[key]
        lines.append(line["log"])


def test_packages_are_installed_once_and_the_workers_have_them(host, tmp_path) -> None:
    wanted = packages(tmp_path)
    lines, ready = logged_until(host.run(**wanted), "ready")
    assert any("Successfully installed hostware-1.2" in line for line in lines)
    asked = [ready["python"], "-c", "import hostware; print(hostware.IT_IS)"]
    assert subprocess.run(asked, capture_output=True, check=True, text=True).stdout == "here\n"
    lines, again = logged_until(host.run(run_id="run-2", **wanted), "ready")
    assert (lines, again["python"]) == ([], ready["python"])


def test_a_job_runs_in_the_environment(one_host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    talk = one_host.run(**packages(tmp_path))
    ready = logged_until(talk, "ready")[1]
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token))
        talk.line_with("end")
    assert told.result["exit"]["code"] == 0
    assert any(ready["python"] in note.get("message", "") for note in told.notes)


def test_a_probe_tells_of_the_modules_of_an_environment_that_is_built(one_host, tmp_path) -> None:
    wanted = packages(tmp_path)
    asked = {"modules": ["hostware"], **wanted}
    assert one_host.ask("probe", **asked).line()["facts"]["modules"] == {"hostware": None}
    logged_until(one_host.run(**wanted), "ready")
    told = one_host.ask("probe", **asked).line()["facts"]
    assert told["modules"] == {"hostware": "1.2"}
    assert "/environments/" in told["python"]


def test_of_two_starts_at_once_one_builds_it(one_host, tmp_path) -> None:
    wanted = packages(tmp_path)
    one_host.send_code(one_host.ask("take_up"))
    talks = [one_host.run(run_id=run_id, **wanted) for run_id in ("run-1", "run-2")]
    said = [logged_until(talk, "ready")[0] for talk in talks]
    assert sorted(any("building" in line for line in lines) for lines in said) == [False, True]


def test_a_build_that_fails_is_told_of_in_the_words_of_pip_and_leaves_nothing(one_host) -> None:
    talk = one_host.run(packages=["--no-index", "no-such-package-anywhere"])
    _, error = logged_until(talk, "error")
    assert error["code"] == "packages_failed"
    assert "on gpubox" in error["message"]
    assert "No matching distribution found for no-such-package-anywhere" in error["evidence"]
    assert left_of(one_host) == []


def left_of(host) -> list[str]:
    """What lies among the environments beside locks."""
    return [path.name for path in (host.remote_dir / "environments").iterdir() if path.suffix != ".lock"]


def test_a_build_that_takes_too_long_is_given_up(one_host, tmp_path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "setup.py").write_text("import time; time.sleep(60)")
    talk = one_host.run(packages=["--no-index", str(slow)], build_timeout_s=6)
    _, error = logged_until(talk, "error")
    assert "it was not done within 6 s" in error["message"]
    assert left_of(one_host) == []


def test_a_build_that_was_killed_is_begun_anew(one_host, tmp_path) -> None:
    wanted = packages(tmp_path)
    talk = one_host.run(**wanted)
    assert "building" in talk.line()["log"]
    talk.process.kill()
    talk.ended()
    _, ready = logged_until(one_host.run(**wanted), "ready")
    assert (Path(ready["python"]).parents[1] / WHOLE).is_file()


def test_a_password_in_the_address_of_a_package_is_on_no_command_line(one_host, tmp_path) -> None:
    wanted = ["--no-index", "--find-links", "file:///nowhere?password=geheim", "no-such-package-anywhere"]
    talk = one_host.run(packages=wanted)
    seen = ""
    while "log" in (line := talk.line()):
        seen += "".join(command_line(pid) for pid in one_host.left())
    assert "pip" in seen
    assert "geheim" not in seen
    assert line["error"]["code"] == "packages_failed"
    assert left_of(one_host) == []


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""


def test_another_list_has_another_environment() -> None:
    asked = {"remote_dir": "/srv/training"}
    first, second = (environment_python({**asked, "packages": wanted}) for wanted in (["a"], ["a", "b"]))
    assert first.parents[2] == second.parents[2] == Path("/srv/training/environments")
    assert first != second
    assert environment_python({**asked, "packages": []}) is None


def test_the_packages_of_a_python_that_is_an_environment_itself_are_seen_as_well(one_host, tmp_path) -> None:
    venv.create(tmp_path / "own", with_pip=False)
    own = tmp_path / "own" / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    (own / "hosttorch.py").write_text("IT_IS = 'there'\n")
    one_host.python = str(tmp_path / "own" / "bin" / "python")
    _, ready = logged_until(one_host.run(**packages(tmp_path)), "ready")
    asked = [ready["python"], "-c", "import hostware, hosttorch; print(hosttorch.IT_IS)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "there\n"


@pytest.mark.parametrize("name", ["PIP_USER", "PIP_TARGET"])
def test_settings_of_the_login_do_not_lead_pip_elsewhere(one_host, tmp_path, name) -> None:
    one_host.environment[name] = "1" if name == "PIP_USER" else str(tmp_path / "elsewhere")
    _, ready = logged_until(one_host.run(**packages(tmp_path)), "ready")
    subprocess.run([ready["python"], "-c", "import hostware"], check=True)
