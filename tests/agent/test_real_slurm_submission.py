"""Jobs of ours, given to a real SLURM by the script that an agent writes, and looked at by several agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob, happens
from slurm_login_node import LoginNode

from potato_ray.agent.slurm.looks import Looks
from potato_ray.agent.slurm.states import NOT_SEEN
from potato_ray.agent.slurm.submission import NotSubmitted, Submission, find
from potato_ray.job.folder import JobFolder

ALL_FLAGS = {
    "partition": "high",
    "gres": "gpu:1",
    "time": "0-01:00:00",
    "mem": "200M",
    "cpus_per_task": 2,
    "sbatch_args": ['--comment="from the backend"', "--nice=5"],
}


@pytest.fixture
def node(slurm: SlurmCluster, tmp_path: Path) -> LoginNode:
    return LoginNode(slurm, tmp_path)


def code_of(job: SlurmJob) -> int | None:
    end = JobFolder(job.folder).read_exit()
    return end.code if end is not None else None


def test_a_job_trains_and_leaves_its_end_in_its_folder(node: LoginNode) -> None:
    job = node.launch()
    assert job.end == ("COMPLETED", "None", "0:0")
    assert code_of(job) == 0
    assert (job.folder / "artifacts" / "predictions.jsonl").exists()
    assert job.out == ""


def test_a_folder_may_have_a_name_that_a_script_has_to_quote(node: LoginNode) -> None:
    job = node.launch('it\'s 100%j # of "it"', prelude=["echo at work"])
    assert job.end[0] == "COMPLETED"
    assert job.out == "at work\n"


def test_the_keys_of_a_backend_reach_slurm(node: LoginNode) -> None:
    job = node.launch(play="wait", **ALL_FLAGS)
    job.becomes("RUNNING")
    fields = job.fields
    wanted = {"Partition": "high", "TimeLimit": "01:00:00", "CPUs/Task": "2", "Requeue": "0"}
    assert {name: fields[name] for name in wanted} == wanted
    assert (fields["MinMemoryNode"], fields["Comment"]) == ("200M", "from the backend")
    assert fields["TresPerNode"].endswith("gpu:1")


def test_the_prelude_and_the_env_reach_the_worker(node: LoginNode) -> None:
    env = {"FROM_ENV": "a 'b', c"}
    job = node.launch(env=env, prelude=['export FROM_PRELUDE="$FROM_ENV!"', "env"], play="wait")
    job.says("FROM_PRELUDE=a 'b', c!\n")
    assert happens(JobFolder(job.folder).process.exists)
    worker = JobFolder(job.folder).read_processes()
    assert worker is not None
    assert b"FROM_PRELUDE=a 'b', c!" in Path(f"/proc/{worker.worker.pid}/environ").read_bytes()


def test_a_line_of_the_prelude_that_fails_is_named(node: LoginNode) -> None:
    job = node.launch(prelude=["true", "module load cuda"])
    assert job.end[0] == "COMPLETED"
    assert "module: command not found" in job.out
    assert "line 2 of the prelude failed with code 127" in job.out


def test_a_job_is_found_again_by_its_name_alone(node: LoginNode) -> None:
    job = node.plain("job")
    noted = Submission.read(job.folder)
    assert noted is not None
    assert find(node.slurm, Submission(noted.name)) == noted
    Submission(noted.name).write(job.folder)
    assert node.plain("job").id == job.id


def test_an_unanswered_submission_is_not_made_twice(impatient: SlurmCluster, tmp_path: Path) -> None:
    node = LoginNode(impatient, tmp_path)
    jobs: list[SlurmJob] = []
    submitting = threading.Thread(target=lambda: jobs.append(node.plain("job")))
    with impatient.hung("slurmctld"):
        submitting.start()
        time.sleep(4.0)  # longer than sbatch waits
    submitting.join(60.0)
    noted = Submission.read(tmp_path / "job")
    assert noted is not None
    assert impatient.ask("squeue", "-h", "-t", "all", "-n", noted.name, "-o", "%i") == jobs[0].id


@pytest.mark.parametrize(
    ("flag", "said", "advice"),
    [
        ("--partition=nosuch", "Invalid partition name specified", "Correct `partition`"),
        ("--gres=gpu:9", "Requested node configuration is not available", "gres"),
        ("--gres=tpu:1", "Invalid generic resource", "Correct `gres`"),
        ("--time=abc", "Invalid --time specification", "`time`"),
        ("--mem=999G", "Memory specification can not be satisfied", "`mem`"),
        ("--constraint=nofeature", "Invalid feature specification", "`constraint`"),
        ("--nodelist=nonode", "Invalid node name specified", "`nodelist`"),
        ("--reservation=nores", "Requested reservation is invalid", "`reservation`"),
        ("--no-such-option=1", "unrecognized option", "`sbatch_args`"),
    ],
)
def test_a_refusal_says_what_to_correct(node: LoginNode, flag: str, said: str, advice: str) -> None:
    with pytest.raises(NotSubmitted) as refused:
        node.plain("job", flag)
    failure = refused.value.failure
    assert failure.code == "slurm_failed"
    assert said in failure.message
    assert advice in failure.next_step


def test_a_partition_may_refuse_a_time_that_is_too_long(impatient: SlurmCluster, tmp_path: Path) -> None:
    with pytest.raises(NotSubmitted) as refused:
        LoginNode(impatient, tmp_path).plain("job", "--partition=short", "--time=60")
    assert "Requested time limit is invalid" in refused.value.failure.message
    assert "`time`" in refused.value.failure.next_step


def test_one_look_is_for_the_jobs_of_all_agents(node: LoginNode) -> None:
    jobs = [node.plain(name) for name in ("one", "two")]
    for job in jobs:
        job.becomes("RUNNING")
    agents = [Looks(node.slurm, node.folder, 60.0) for _ in jobs]
    assert agents[0].look(jobs[0].id) is not None
    jobs[0].cancel()
    jobs[0].ends()
    states = [agents[1].look(job.id) for job in jobs]
    assert states[0] is not None
    assert states[0].state == "RUNNING"  # as it was at the one look
    assert states[1] is NOT_SEEN  # nobody followed it then


def test_a_job_that_slurm_has_forgotten_is_told_from_one_that_has_ended(
    impatient: SlurmCluster, tmp_path: Path
) -> None:
    node = LoginNode(impatient, tmp_path)
    job = impatient.submit("exit 0")
    looks = Looks(node.slurm, tmp_path, 0.2)
    assert happens(lambda: (seen := looks.look(job.id)) is not None and seen.final)
    assert happens(lambda: looks.look(job.id) is None)
    assert "Invalid job id specified" in impatient.run("squeue", "-h", "-t", "all", "-j", job.id).stderr


@pytest.fixture(scope="module")
def impatient() -> Iterator[SlurmCluster]:
    """A SLURM whose commands give up soon, and that forgets jobs soon after their end."""
    with SlurmCluster("MessageTimeout=2\nMinJobAge=2\nEnforcePartLimits=ALL") as cluster:
        yield cluster
