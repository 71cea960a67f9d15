"""SLURM's commands: where they are found, what they see, and when their word counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_slurm import DOWN, TIMED_OUT, UNKNOWN, FakeSlurm

from potato_ray.agent.slurm import commands
from potato_ray.agent.slurm.commands import Said, Slurm, SlurmAway, SlurmCommandMissing


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def slurm(fake: FakeSlurm) -> Slurm:
    return Slurm(fake.env, base={"HOME": "/home/ada"}, host="login1")


def test_a_command_answers_with_code_and_both_outputs(fake: FakeSlurm, slurm: Slurm) -> None:
    fake.answers("scancel", code=1, out="text", err="scancel: error: Kill job error on job id 2: nothing\n")
    said = slurm.scancel("--full", "--signal=TERM", "2")
    assert said == Said(1, "text", "scancel: error: Kill job error on job id 2: nothing\n")
    assert said.words == "Kill job error on job id 2: nothing"
    assert fake.arguments("scancel") == [["--full", "--signal=TERM", "2"]]


def test_commands_are_looked_for_on_the_path_of_the_backend(fake: FakeSlurm, tmp_path: Path) -> None:
    assert not Slurm(base={"PATH": str(tmp_path)}).has("sbatch")
    assert Slurm({"PATH": str(fake.bin)}, base={"PATH": str(tmp_path)}).find("sbatch") == str(
        fake.bin / "sbatch"
    )


def test_a_command_that_is_missing_is_named_to_the_letter(tmp_path: Path) -> None:
    bare = Slurm({"PATH": str(tmp_path)}, host="login1")
    with pytest.raises(SlurmCommandMissing) as missing:
        bare.sbatch("job.sh", folder=tmp_path)
    assert missing.value.message == "login1 has no sbatch on PATH, so it cannot submit jobs."
    assert bare.show_job("1") == ""


def test_settings_that_change_answers_are_kept_from_the_commands(fake: FakeSlurm) -> None:
    base = {
        "SQUEUE_PARTITION": "high",
        "SBATCH_EXPORT": "NONE",
        "SCANCEL_STATE": "PENDING",
        "SLURM_CLUSTERS": "other",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_NTASKS": "2",
        "SLURM_CONF": "/etc/site.conf",
        "POTATO_TRAINING_TOKEN": "prt_secret",
        "HOME": "/home/ada",
    }
    fake.job("1", "RUNNING")
    Slurm({**fake.env, "SITE": "x"}, base=base).squeue("-j", "1")
    seen = fake.calls("squeue")[0]["env"]
    assert not base.keys() - {"SLURM_CONF", "HOME"} & seen.keys()
    assert (seen["SLURM_CONF"], seen["HOME"], seen["SITE"]) == ("/etc/site.conf", "/home/ada", "x")


@pytest.mark.parametrize(
    "err",
    [
        f"slurm_load_jobs error: {DOWN}",
        f"slurm_load_jobs error: {TIMED_OUT}",
        f"sbatch: error: Batch job submission failed: {TIMED_OUT}",
        'sbatch: error: Munge encode failed: Failed to access "/run/munge": none (Did you start munged?)',
        "sbatch: error: Batch job submission failed: Protocol authentication error",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
        "scontrol: error: resolve_ctls: cannot stat file /no/such: none, retrying in 1sec up to 60sec",
        "squeue: fatal: Could not establish a configuration source",
        "squeue: error: Unable to establish control machine address",
        "slurm_load_jobs error: Unable to establish controller machine",
        "squeue: error: get_addr_info: getaddrinfo() failed: Name or service not known",
        'squeue: error: slurm_set_addr: Unable to resolve "ctl"',
    ],
)
def test_a_slurm_that_is_away_is_known_by_its_words(fake: FakeSlurm, slurm: Slurm, err: str) -> None:
    fake.answers("squeue", code=1, err=err)
    with pytest.raises(SlurmAway, match="SLURM does not answer squeue on login1") as away:
        slurm.squeue("-j", "1")
    assert away.value.evidence


def test_a_job_that_is_unknown_is_no_sign_that_slurm_is_away(fake: FakeSlurm, slurm: Slurm) -> None:
    assert slurm.squeue("-j", "1") == Said(1, "", UNKNOWN)
    assert slurm.show_job("1") == ""


@pytest.mark.parametrize("err", ["slurm_load_jobs error: Invalid argument\n", ""])
def test_a_job_is_not_forgotten_because_scontrol_failed(fake: FakeSlurm, slurm: Slurm, err: str) -> None:
    fake.answers("scontrol", code=1, err=err)
    with pytest.raises(SlurmAway, match="SLURM does not answer scontrol on login1"):
        slurm.show_job("1")


def test_words_of_a_command_that_succeeded_are_no_sign_either(fake: FakeSlurm, slurm: Slurm) -> None:
    fake.answers("squeue", out="1|RUNNING|None|n1\n", err=f"squeue: error: {DOWN}, trying the backup\n")
    assert slurm.squeue("-j", "1").code == 0


def test_a_command_that_hangs_is_killed_and_slurm_is_away(fake: FakeSlurm) -> None:
    fake.answers("squeue", delay_s=60.0)
    with pytest.raises(SlurmAway, match=r"it did not answer within 0.2 s"):
        Slurm(fake.env, base={}, timeout_s=0.2).squeue("-j", "1")


def test_a_command_that_a_signal_ended_has_said_nothing(fake: FakeSlurm, slurm: Slurm) -> None:
    fake.answers("scancel", code=-9)
    with pytest.raises(SlurmAway, match=r"it was ended by signal 9\."):
        slurm.scancel("1")


def test_of_many_words_the_first_and_the_last_are_kept() -> None:
    lines = ["sbatch: error: first", *["sbatch: error: and so on"] * 99, "sbatch: error: at last"]
    words = Said(1, "", "\n".join(lines)).words
    assert (words[:6], words[-8:]) == ("first;", " at last")
    assert " … " in words
    assert len(words) <= commands.LONGEST_CHARS


def test_commands_are_given_long_enough_to_tell_down_from_hung() -> None:
    assert commands.TIMEOUT_S >= commands.LEAST_TIMEOUT_S >= 20.0


def test_another_cluster_is_named_before_the_rest(fake: FakeSlurm, slurm: Slurm) -> None:
    fake.shows("JobId=4 JobState=RUNNING\n")
    assert slurm.show_job("4", cluster="potato") == "JobId=4 JobState=RUNNING"
    assert fake.arguments("scontrol") == [["-M", "potato", "show", "job", "-o", "4"]]


def test_a_command_is_of_no_folder_and_hears_no_signals_of_the_agents_terminal(
    fake: FakeSlurm, slurm: Slurm
) -> None:
    slurm.scancel("1")
    [call] = fake.calls("scancel")
    assert call["cwd"] == "/"
    assert call["session"] not in (os.getsid(0), 0)


def test_a_job_is_submitted_from_its_folder(fake: FakeSlurm, slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --job-name=potato-1\n")
    assert slurm.sbatch("--parsable", str(tmp_path / "job.sh"), folder=tmp_path).out == "4242\n"
    assert fake.calls("sbatch")[0]["cwd"] == str(tmp_path)
