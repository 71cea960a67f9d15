"""SLURM's commands as an agent runs them, and what they say, against a real SLURM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

from potato_ray.agent.slurm.commands import Slurm, SlurmAway
from potato_ray.agent.slurm.states import JobState, in_words, needs_a_person

SLEEPER = "exec sleep 60"


@pytest.fixture
def commands(slurm: SlurmCluster) -> Slurm:
    return Slurm(slurm.env, host="login")


def look(commands: Slurm, job_id: str) -> JobState:
    return commands.jobs("-j", job_id)[job_id]


def test_a_submitted_job_is_seen_to_run_and_to_end(slurm: SlurmCluster, commands: Slurm) -> None:
    said = commands.sbatch("--parsable", "--output=/dev/null", "--wrap=sleep 60", folder=slurm.folder)
    job = slurm.job(said.out.strip(), slurm.folder)
    job.becomes("RUNNING")
    running = look(commands, job.id)
    assert in_words(job.id, running) == f"SLURM job {job.id}: RUNNING on {running.nodes}"
    assert running.nodes in slurm.nodes
    assert commands.scancel(job.id).code == 0
    job.ends()
    assert look(commands, job.id).final


def test_an_unknown_job_is_an_answer(commands: Slurm) -> None:
    assert commands.jobs("-j", "99999") == {}
    assert commands.jobs("-n", "potato-none") == {}
    assert commands.show_job("99999") == ""
    assert commands.scancel("99999").code == 0


def test_settings_of_the_login_node_change_no_answer(slurm: SlurmCluster) -> None:
    settings = {"SQUEUE_PARTITION": "high", "SQUEUE_STATES": "PENDING", "SLURM_CLUSTERS": "elsewhere"}
    commands = Slurm(slurm.env, base={**os.environ, **settings, "SLURM_TIME_FORMAT": "relative"})
    job = slurm.submit(SLEEPER)
    job.becomes("RUNNING")
    assert look(commands, job.id).state == "RUNNING"
    assert f"JobId={job.id} " in commands.show_job(job.id)


@pytest.mark.parametrize(
    ("flags", "reasons"),
    [
        (["--hold"], ["JobHeldUser"]),
        (["--partition=short", "--time=60"], ["PartitionTimeLimit"]),
        (
            ["--nodes=9"],
            ["PartitionConfig", "PartitionNodeLimit"],
        ),  # as the one or the other scheduler sees it
    ],
)
def test_a_job_that_never_starts_needs_a_person(
    slurm: SlurmCluster, commands: Slurm, flags: list[str], reasons: list[str]
) -> None:
    job = slurm.submit(SLEEPER, *flags)
    job.waits_for(*reasons)
    state = look(commands, job.id)
    assert in_words(job.id, state) in [f"SLURM job {job.id}: PENDING ({reason})" for reason in reasons]
    assert "A person has to" in needs_a_person(state)


def test_a_job_whose_predecessor_failed_needs_a_person(slurm: SlurmCluster, commands: Slurm) -> None:
    first = slurm.submit("exit 1", "--begin=now+1")
    second = slurm.submit(SLEEPER, f"--dependency=afterok:{first.id}")
    assert not needs_a_person(look(commands, second.id))
    second.waits_for("DependencyNeverSatisfied")
    assert "A person has to" in needs_a_person(look(commands, second.id))


def test_a_job_that_was_sent_back_and_held_needs_a_person(slurm: SlurmCluster, commands: Slurm) -> None:
    job = slurm.submit(SLEEPER, "--requeue")
    job.becomes("RUNNING")
    slurm.ask("scontrol", "requeuehold", job.id)
    job.waits_for("job requeued in held state")
    assert "A person has to" in needs_a_person(look(commands, job.id))


def test_a_job_that_waits_for_its_turn_needs_nobody(slurm: SlurmCluster, commands: Slurm) -> None:
    slurm.submit(SLEEPER, "--exclusive", "--nodes=2").becomes("RUNNING")
    job = slurm.submit(SLEEPER)
    job.waits_for("Resources")
    assert not needs_a_person(look(commands, job.id))


@pytest.fixture(scope="module")
def impatient() -> Iterator[SlurmCluster]:
    """A SLURM whose commands give up soon."""
    with SlurmCluster("MessageTimeout=2") as cluster:
        yield cluster


def assert_away(commands: Slurm, folder: Path) -> None:
    with pytest.raises(SlurmAway):
        commands.jobs("-j", "1")
    with pytest.raises(SlurmAway):
        commands.sbatch("--parsable", "--output=/dev/null", "--wrap=true", folder=folder)
    with pytest.raises(SlurmAway):
        commands.scancel("1")


@pytest.mark.parametrize("daemon", ["slurmctld", "munged"])
def test_slurm_is_away_while_a_daemon_is_dead(impatient: SlurmCluster, daemon: str) -> None:
    commands = Slurm(impatient.env)
    with impatient.without(daemon):
        assert_away(commands, impatient.folder)
    assert commands.jobs("-n", "potato-none") == {}


def test_slurm_is_away_while_its_controller_hangs(impatient: SlurmCluster) -> None:
    commands = Slurm(impatient.env)
    with impatient.hung("slurmctld"):
        assert_away(commands, impatient.folder)


def test_slurm_is_away_when_a_command_takes_too_long(impatient: SlurmCluster) -> None:
    commands = Slurm(impatient.env, timeout_s=0.5)
    with impatient.hung("slurmctld"), pytest.raises(SlurmAway, match=r"SLURM does not answer squeue"):
        commands.jobs("-j", "1")
