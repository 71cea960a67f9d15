"""What a host says of itself, and what is said of one that cannot be used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import fake_nvidia_smi
import pytest
from fake_slurm import FakeSlurm
from host_talk import NAME
from parts import missing

from potato_ray.agent.slurm import commands
from potato_ray.host import facts
from potato_ray.shipping.host_program import host_input, host_script


def test_a_host_tells_its_python_its_folder_and_its_path(host) -> None:
    told = host.ask("probe").line()["facts"]
    assert told["version"].startswith("3.")
    assert told["remote_dir"] == str(host.remote_dir)
    assert (told["home"], told["path"]) == (str(host.home), os.environ["PATH"])
    assert (told["has_code"], told["problem"]) == (False, "")
    assert told["free_disk_mb"] > 0


def test_a_probe_leaves_nothing_behind(host) -> None:
    host.ask("probe").line()
    assert list(host.home.iterdir()) == []


def test_a_host_without_gpus_says_so_for_each_question(one_host) -> None:
    one_host.environment["PATH"] = "/usr/bin:/bin"
    told = one_host.ask("probe", smi=[["-L"], ["-q", "-x"]]).line()["facts"]
    assert told["smi"] == [{"code": None, "out": "nvidia-smi was not found"}] * 2


def test_the_answers_of_nvidia_smi_come_as_they_are(one_host, tmp_path) -> None:
    fake_nvidia_smi.install(tmp_path / "bin")
    fake_nvidia_smi.write_cards(tmp_path / "smi", [39000])
    one_host.environment.update(FAKE_SMI_DIR=str(tmp_path / "smi"), PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    told = one_host.ask("probe", smi=[["--query-gpu=uuid", "--format=csv"], ["-L"]]).line()["facts"]
    assert told["smi"][0] == {"code": 0, "out": (tmp_path / "smi" / "query.csv").read_text()}
    assert told["smi"][1]["out"] == ""


def test_an_nvidia_smi_that_hangs_is_waited_for_once(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(facts, "SMI_S", 0.3)
    fake_nvidia_smi.install(tmp_path / "bin")
    (tmp_path / "delay_s").write_text("60")
    monkeypatch.setenv("FAKE_SMI_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    told = facts.ask_smi([["-L"], ["-q"], ["-x"]])
    assert told == [{"code": None, "out": "nvidia-smi did not answer within 0.3 s"}] * 3


def test_modules_are_told_with_their_versions(one_host, tmp_path) -> None:
    (tmp_path / "shelf" / "hostware").mkdir(parents=True)
    (tmp_path / "shelf" / "hostware" / "__init__.py").touch()
    (tmp_path / "shelf" / "hostware-1.2.dist-info").mkdir()
    (tmp_path / "shelf" / "hostware-1.2.dist-info" / "METADATA").write_text("Name: hostware\nVersion: 1.2\n")
    names = ["hostware", "json", "nowhere"]
    told = one_host.ask("probe", modules=names, env={"PYTHONPATH": str(tmp_path / "shelf")}).line()["facts"]
    assert told["modules"] == {"hostware": "1.2", "json": "", "nowhere": None}


def test_modules_of_another_interpreter_are_its_own(one_host, tmp_path) -> None:
    (tmp_path / "other").write_text('#!/bin/sh\necho \'answer: {"json": "9"}\'\n')
    (tmp_path / "other").chmod(0o755)
    told = one_host.ask("probe", modules=["json"], modules_of=str(tmp_path / "other")).line()["facts"]
    assert told["modules"] == {"json": "9"}
    gone = one_host.ask("probe", modules=["json"], modules_of=str(tmp_path / "gone")).line()["facts"]
    assert gone["modules"] is None


def test_a_torch_is_asked_for_what_it_was_built_for(one_host, tmp_path) -> None:
    (tmp_path / "torch.py").write_text(
        "from types import SimpleNamespace as N\nprint('noise')\n__version__ = '2.1.0'\n"
        "version = N(cuda='12.1', hip=None)\ncuda = N(get_arch_list=lambda: ['sm_80', 'compute_90'])\n"
    )
    told = one_host.ask("probe", torch=True, env={"PYTHONPATH": str(tmp_path)}).line()["facts"]
    built = {"version": "2.1.0", "cuda": "12.1", "hip": "", "architectures": ["sm_80", "compute_90"]}
    assert told["torch"] == built


def test_a_host_without_torch_has_none(one_host) -> None:
    assert one_host.ask("probe", torch=True).line()["facts"]["torch"] is None


def test_commands_are_looked_for_on_the_path_that_env_sets(one_host, tmp_path) -> None:
    (tmp_path / "slurm").mkdir()
    there = tmp_path / "slurm" / "sbatch-of-a-module"  # sbatch itself may be on every PATH
    there.touch(0o755)
    names = [there.name, "no-such-command"]
    assert one_host.ask("probe", commands=names).line()["facts"]["commands"] == dict.fromkeys(names)
    told = one_host.ask("probe", commands=names, env={"PATH": str(there.parent)}).line()["facts"]
    assert told["commands"] == {there.name: str(there), "no-such-command": None}


def test_slurm_is_asked_by_a_job_that_is_not_submitted(one_host, tmp_path) -> None:
    fake = FakeSlurm(tmp_path / "fake")
    fake.answers("sbatch", code=1, err="allocation failure: Invalid partition name specified\n")
    one_host.environment.update(SBATCH_QOS="of the login", SLURM_CLUSTERS="of the login")
    env = {**fake.env, "SBATCH_ACCOUNT": "of the backend"}
    told = one_host.ask("probe", trial=["--partition=x"], env=env).line()["facts"]
    assert told["trial"] == {"code": 1, "out": "allocation failure: Invalid partition name specified\n"}
    [call] = fake.calls("sbatch")
    assert call["args"] == ["--test-only", "--output=/dev/null", "--partition=x", "--wrap=:"]
    # As a run's sbatch: what the backend sets counts, and what the login sets does not.
    assert call["env"]["SBATCH_ACCOUNT"] == "of the backend"
    assert not {"SBATCH_QOS", "SLURM_CLUSTERS"} & set(call["env"])
    nothing = one_host.ask("probe", trial=[], env={"PATH": "/nowhere"}).line()["facts"]
    assert nothing["trial"] is None


def test_a_job_is_tried_in_the_environment_in_which_it_is_submitted() -> None:
    assert (facts.SLURM_DROPPED, facts.SLURM_KEPT) == (commands._DROPPED, commands._KEPT)


def test_files_in_the_home_are_not_taken_for_modules(one_host) -> None:
    (one_host.home / "json.py").write_text("raise SystemExit('taken')")
    talk = one_host.ask("probe")
    assert "facts" in talk.line()


def test_a_python_that_is_not_there_is_named(one_host) -> None:
    talk = one_host.ask("probe", python="python3.99")
    assert talk.line()["error"]["message"] == f"python3.99 was not found on {NAME}"
    talk.send(bytes(200_000))  # whoever sends on meanwhile meets no broken pipe
    talk.end_input()
    assert talk.ended() == 127


def test_a_python_in_the_home_is_found_by_its_tilde(one_host) -> None:
    (one_host.home / "py thon").symlink_to(one_host.python)
    assert "facts" in one_host.ask("probe", python="~/py thon").line()


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
def test_a_python_that_is_too_old_is_told_of_in_words(one_host, version) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        missing(f"there is no Python {version} here")
    talk = one_host.ask("probe", python=str(found[0]))
    talk.send(bytes(200_000))
    error = talk.line()["error"]
    assert error["code"] == "python_too_old"
    assert f"on {NAME} is Python {version}" in error["message"]


def test_an_unknown_request_is_refused(one_host) -> None:
    talk = one_host.ask("dance")
    one_host.send_code(talk)
    assert talk.line()["error"]["message"] == "This version cannot do 'dance'."


def test_a_request_that_breaks_off_is_told_of(one_host) -> None:
    talk = one_host.ask("run")
    talk.line()
    talk.end_input()
    assert talk.line()["error"]["code"] == "no_input"
    assert talk.ended() == 1


def test_the_command_is_short_and_holds_nothing_of_the_request() -> None:
    script = host_script("python3", NAME)
    assert len(script.encode()) < 2048
    request = {"do": "run", "env": {"HF_TOKEN": "hf_secret"}}
    assert "hf_secret" not in script
    assert json.dumps({"v": 1, **request}).encode() in host_input(request)
