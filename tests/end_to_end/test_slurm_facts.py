"""What our code takes for granted of SLURM, held against a real one: signals, states, texts, exit codes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_making import make_job
from parts import missing
from slurm_cluster import SlurmCluster
from slurm_job import happens

from potato_ray.job import start
from potato_ray.job.folder import Exit, JobFolder

SLEEPER = "exec sleep 60"
# The worker takes half a second to end, which is what is at stake.
WORKER = "trap 'sleep 0.5; echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
EXECED = f"exec sh -c {shlex.quote(WORKER)}"
CHILD = f"sh -c {shlex.quote(WORKER)}; exit $?"
TOLD_TO_END = ("--full", "--signal=TERM")


def test_sbatch_says_nothing_but_the_id(slurm: SlurmCluster) -> None:
    done = slurm.run("sbatch", "--parsable", "--output=/dev/null", "--wrap=true")
    assert done.stdout.strip().isdigit()
    assert not done.stderr


def test_squeue_knows_nothing_of_an_ended_job_unless_asked_for_all_states(slurm: SlurmCluster) -> None:
    job = slurm.submit("exit 0")
    job.ends()
    usual = slurm.run("squeue", "-h", "-j", job.id, "-o", "%T")
    assert (usual.returncode, usual.stdout, usual.stderr) == (0, "", "")
    assert slurm.ask("squeue", "-h", "-t", "all", "-j", job.id, "-o", "%T") == "COMPLETED"


def test_squeue_fails_for_an_unknown_job_alone_and_leaves_it_out_among_others(slurm: SlurmCluster) -> None:
    job = slurm.submit("exit 0")
    job.ends()
    alone = slurm.run("squeue", "-h", "-t", "all", "-j", "99999", "-o", "%i|%T")
    assert alone.returncode == 1
    assert "Invalid job id specified" in alone.stderr
    among = slurm.run("squeue", "-h", "-t", "all", "-j", f"99999,{job.id}", "-o", "%i|%T")
    assert (among.returncode, among.stdout) == (0, f"{job.id}|COMPLETED\n")


def test_squeue_finds_jobs_by_name_ended_or_not(slurm: SlurmCluster) -> None:
    ended = slurm.submit("exit 0", "--job-name=potato-run.1-ab")
    living = slurm.submit(SLEEPER, "--job-name=potato-run.2-cd")
    ended.ends()
    names = "potato-run.1-ab,potato-run.2-cd,potato-none.1-ef"
    found = slurm.ask("squeue", "-h", "-t", "all", "-n", names, "-o", "%i|%j").split()
    assert set(found) == {f"{ended.id}|potato-run.1-ab", f"{living.id}|potato-run.2-cd"}
    nothing = slurm.run("squeue", "-h", "-t", "all", "-n", "potato-none.1-ef", "-o", "%i")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "")


def test_a_variable_makes_squeue_hide_a_job_without_a_word(slurm: SlurmCluster) -> None:
    job = slurm.submit(SLEEPER)
    hidden = slurm.run("squeue", "-h", "-j", job.id, "-o", "%T", env={"SQUEUE_PARTITION": "high"})
    assert (hidden.returncode, hidden.stdout) == (0, "")


def test_a_variable_makes_sbatch_choose_another_partition(slurm: SlurmCluster) -> None:
    command = ("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true")
    job_id = slurm.run(*command, env={"SBATCH_PARTITION": "high"}).stdout.strip()
    assert slurm.ask("squeue", "-h", "-j", job_id, "-o", "%P") == "high"


@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        ("--partition=nosuch", 1, "Invalid partition name specified"),
        ("--gres=gpu:9", 1, "Requested node configuration is not available"),
        ("--gres=tpu:1", 1, "Invalid generic resource (gres) specification"),
        ("--time=abc", 255, "Invalid --time specification"),
        ("--mem=lots", 255, "Invalid --mem specification"),
        ("--mem=999G", 1, "Memory specification can not be satisfied"),
        ("--constraint=nofeature", 1, "Invalid feature specification"),
        ("--nodelist=nonode", 1, "Invalid node name specified"),
        ("--reservation=nores", 1, "Requested reservation is invalid"),
        ("--no-such-option=1", 255, "unrecognized option"),
    ],
)
def test_sbatch_refuses_what_cannot_be(slurm: SlurmCluster, flag: str, code: int, text: str) -> None:
    done = slurm.run("sbatch", "--parsable", flag, "--output=/dev/null", "--wrap=true")
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr


@pytest.mark.parametrize(
    ("flags", "reasons"),
    [
        (["--hold"], ["JobHeldUser"]),
        (["--partition=short", "--time=60"], ["PartitionTimeLimit"]),
        (["--nodes=9"], ["PartitionConfig", "PartitionNodeLimit"]),
    ],
)
def test_sbatch_takes_jobs_that_wait_for_ever(
    slurm: SlurmCluster, flags: list[str], reasons: list[str]
) -> None:
    slurm.submit(SLEEPER, *flags).waits_for(*reasons)


def test_a_job_waits_for_ever_for_one_that_has_failed(slurm: SlurmCluster) -> None:
    first = slurm.submit("sleep 1; exit 1")
    second = slurm.submit(SLEEPER, f"--dependency=afterok:{first.id}")
    second.waits_for("Dependency")
    second.waits_for("DependencyNeverSatisfied")


def test_a_job_that_is_held_by_root_waits_for_root(slurm: SlurmCluster) -> None:
    job = slurm.submit(SLEEPER, "--begin=now+1hour")
    slurm.ask("scontrol", "hold", job.id)
    assert job.queue_row.startswith("PENDING|JobHeld")


def test_an_execed_worker_may_end_in_its_own_way_when_all_are_told(slurm: SlurmCluster) -> None:
    job = slurm.submit(EXECED)
    job.says("ready")
    job.cancel(*TOLD_TO_END)
    assert job.end == ("FAILED", "NonZeroExitCode", "3:0")
    assert "told" in job.out


def test_an_execed_worker_may_end_in_its_own_way_on_a_cancel_from_outside(slurm: SlurmCluster) -> None:
    job = slurm.submit(EXECED)
    job.says("ready")
    job.cancel()
    assert job.end == ("CANCELLED", "None", "3:0")
    assert "told" in job.out
    assert "error: *** JOB" in job.out


def test_a_worker_that_is_a_child_of_the_script_is_killed_unwarned(slurm: SlurmCluster) -> None:
    if not slurm.signals_script_alone:
        missing("this SLURM does not track processes by cgroups")
    job = slurm.submit(CHILD)
    job.says("ready")
    job.cancel()
    assert job.end == ("CANCELLED", "None", "0:15")
    assert "told" not in job.out


def test_scancel_says_nothing_of_a_job_that_it_does_not_know(slurm: SlurmCluster) -> None:
    done = slurm.run("scancel", "99999")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_waiting_job_cannot_be_told_to_end_only_cancelled(slurm: SlurmCluster) -> None:
    job = slurm.submit(SLEEPER, "--hold")
    # It would go on for a minute and a half.
    done = slurm.run("timeout", "2", "scancel", "-v", *TOLD_TO_END, job.id)
    assert "Job is in transitional state, retrying" in done.stderr
    assert job.fields["JobState"] == "PENDING"
    job.cancel()
    assert job.end == ("CANCELLED", "JobHeldUser", "0:0")
    assert not (job.folder / "slurm.out").exists()


def test_without_requeue_nobody_sends_a_job_back(slurm: SlurmCluster) -> None:
    job = slurm.submit(SLEEPER, "--no-requeue")
    job.becomes("RUNNING")
    assert "Requested operation is presently disabled" in slurm.run("scontrol", "requeue", job.id).stderr
    assert job.fields["JobState"] == "RUNNING"


def test_append_mode_keeps_what_slurm_out_holds(slurm: SlurmCluster) -> None:
    first = slurm.submit("echo first")
    first.ends()
    again = f"--output={first.folder}/slurm.out"
    slurm.submit("echo second", again, "--open-mode=append").ends()
    assert first.out == "first\nsecond\n"
    slurm.submit("echo third", again, "--open-mode=truncate").ends()
    assert first.out == "third\n"


def test_slurm_numbers_the_gpus_of_a_node_and_gives_none_unasked(slurm: SlurmCluster) -> None:
    script = 'echo "gpu ${CUDA_VISIBLE_DEVICES-none}"; exec sleep 60'
    node = f"--nodelist={slurm.nodes[0]}"
    first, second = (slurm.submit(script, "--gres=gpu:1", node) for _ in range(2))
    without, both = slurm.submit(script, node), slurm.submit(script, "--gres=gpu:2", "--nodes=1")
    for job, cards in ((without, "none"), (both, "0,1")):
        job.says(f"gpu {cards}\n")
    for job in (first, second):
        job.says("gpu ")
    assert {first.out, second.out} == {"gpu 0\n", "gpu 1\n"}


def test_a_job_does_not_notice_that_the_controller_is_away(slurm: SlurmCluster) -> None:
    job = slurm.submit("echo ready; while [ ! -e go ]; do sleep 0.05; done; echo done")
    job.says("ready")
    with slurm.without("slurmctld"):
        (job.folder / "go").touch()
        job.says("done")
    assert job.end == ("COMPLETED", "None", "0:0")


# ---- our launcher in a job


def launched(folder: Path, play: str = "wait") -> JobFolder:
    """The folder of a job of ours, which a script is to run."""
    return JobFolder(make_job(folder, play, gpu_uuids=None).folder)


def script_of(job: JobFolder) -> str:
    command = start.command(sys.executable, "launcher", str(job.path), "--foreground", bare=True)
    return f"exec {shlex.join(command)}"


def is_playing(job: JobFolder) -> bool:
    return job.events.exists() and "playing" in job.events.read_text()


def test_our_launcher_ends_a_job_as_its_worker_ends(slurm: SlurmCluster, tmp_path: Path) -> None:
    good, bad = launched(tmp_path / "good", "succeed"), launched(tmp_path / "bad", "fail")
    jobs = [slurm.submit(script_of(folder)) for folder in (good, bad)]
    assert [job.end[0] for job in jobs] == ["COMPLETED", "FAILED"]
    assert [end_of(folder).code for folder in (good, bad)] == [0, 1]


@pytest.mark.parametrize("flags", [TOLD_TO_END, ()], ids=["all told", "cancelled"])
def test_our_launcher_notes_a_term_that_is_not_ours(
    slurm: SlurmCluster, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    folder = launched(tmp_path / "job")
    job = slurm.submit(script_of(folder))
    assert happens(lambda: is_playing(folder))
    job.cancel(*flags)
    job.ends()
    assert (end_of(folder).reason, end_of(folder).code) == ("terminated", 4)


def test_our_launcher_knows_a_term_that_is_ours(slurm: SlurmCluster, tmp_path: Path) -> None:
    folder = launched(tmp_path / "job")
    job = slurm.submit(script_of(folder))
    assert happens(lambda: is_playing(folder))
    folder.request_cancel("asked", 2.0)
    job.cancel(*TOLD_TO_END)
    job.ends()
    assert end_of(folder).reason == "cancelled"


def end_of(folder: JobFolder) -> Exit:
    end = folder.read_exit()
    assert end is not None
    return end


# ---- what SLURM's commands say when it is away


@pytest.fixture(scope="module")
def impatient() -> Iterator[SlurmCluster]:
    """A SLURM whose commands give up soon."""
    with SlurmCluster("MessageTimeout=2") as cluster:
        yield cluster


def test_the_commands_say_that_the_controller_is_down(impatient: SlurmCluster) -> None:
    job = impatient.submit(SLEEPER)
    with impatient.without("slurmctld"):
        for command in (("squeue", "-h", "-j", job.id), ("scontrol", "show", "job", job.id)):
            done = impatient.run(*command)
            assert done.returncode == 1
            assert "Unable to contact slurm controller (connect failure)" in done.stderr
        submitted = impatient.run("sbatch", "--parsable", "--wrap=true")
        assert (submitted.returncode, submitted.stdout) == (1, "")
        assert "Unable to contact slurm controller (connect failure)" in submitted.stderr
        assert impatient.run("scancel", job.id).returncode


def test_a_submission_that_timed_out_has_been_made_all_the_same(impatient: SlurmCluster) -> None:
    with impatient.hung("slurmctld"):
        submitted = impatient.run(
            "sbatch", "--parsable", "--job-name=late", "--output=/dev/null", "--wrap=true"
        )
        assert (submitted.returncode, submitted.stdout) == (1, "")
        assert "Socket timed out on send/recv operation" in submitted.stderr
        asked = impatient.run("squeue", "-h", "-t", "all", "-n", "late", "-o", "%i")
        assert (asked.returncode, asked.stdout) == (1, "")
    found = ("squeue", "-h", "-t", "all", "-n", "late", "-o", "%i")
    assert happens(lambda: impatient.ask(*found).isdigit())


def test_the_commands_say_that_munge_is_down(impatient: SlurmCluster) -> None:
    with impatient.without("munged"):
        for command in (("squeue", "-h"), ("sbatch", "--parsable", "--wrap=true")):
            done = impatient.run(*command)
            assert (done.returncode, done.stdout) == (1, "")
            assert "Munge encode failed" in done.stderr


def test_without_a_configuration_the_commands_fail_at_once(impatient: SlurmCluster) -> None:
    done = impatient.run("env", "-u", "SLURM_CONF", "squeue", "-h")
    assert done.returncode == 1
    assert "Could not establish a configuration source" in done.stderr
