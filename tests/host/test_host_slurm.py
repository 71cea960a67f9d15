"""Stopping and clearing up behind a run that is a SLURM job: no job is left in the queue."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from agent_at_work import offer
from fake_slurm import DOWN, FakeSlurm
from forwarded import Forwarded
from host_talk import Host, Talk, secrets_for
from protocol_server import ProtocolServer

from potato_ray.agent.slurm.sbatch_lock import SbatchLock
from potato_ray.agent.slurm.submission import Submission
from potato_ray.job.folder import Exit

NOTHING = {"killed": [], "left": [], "problem": ""}


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


def submission_of(host: Host) -> Submission:
    found = Submission.read(host.job)
    assert found is not None
    return found


def submitted(host: Host, server: ProtocolServer, slurm: FakeSlurm, tmp_path: Path) -> Talk:
    """An agent whose job waits in SLURM's queue."""
    told = offer(server, tmp_path)
    talk = host.run()
    ready = talk.line_with("ready")
    keys = {"poll_interval_s": 1, "env": slurm.env}
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token, slurm=keys))
        server.wait_for(lambda: any("PENDING" in step for step in told.steps), within_s=30.0)
    return talk


def left_behind(host: Host, submission: Submission | None = None) -> Submission:
    """The folder of a run whose agent is gone, with the note of its job."""
    made = submission or Submission("potato-run-1.1-0a1b2c3d", "4242")
    host.job.mkdir(parents=True)
    made.write(host.job)
    return made


def test_the_job_of_an_agent_that_was_killed_is_cancelled(
    host: Host, server: ProtocolServer, slurm: FakeSlurm, tmp_path: Path
) -> None:
    talk = submitted(host, server, slurm, tmp_path)
    name = submission_of(host).name
    talk.process.kill()
    talk.ended()
    assert host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert slurm.arguments("scancel") == [[f"--name={name}"]]
    assert not host.folder.exists()


def test_the_job_of_an_agent_that_does_not_end_is_cancelled_after_it(
    one_host: Host, server: ProtocolServer, slurm: FakeSlurm, tmp_path: Path
) -> None:
    talk = submitted(one_host, server, slurm, tmp_path)
    name = submission_of(one_host).name
    cleared = one_host.request("clear_up", wait_s=0.2, env=slurm.env)["cleared"]
    assert cleared == {**NOTHING, "killed": [talk.process.pid]}
    assert slurm.arguments("scancel") == [[f"--name={name}"]]


def test_a_job_whose_id_nobody_noted_is_cancelled_on_its_own_cluster(
    one_host: Host, slurm: FakeSlurm
) -> None:
    left_behind(one_host, Submission("potato-run-1.1-0a1b2c3d", cluster="far"))
    assert one_host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert slurm.arguments("scancel") == [["-M", "far", "--name=potato-run-1.1-0a1b2c3d"]]


def test_a_job_that_has_ended_is_not_cancelled(one_host: Host, slurm: FakeSlurm) -> None:
    left_behind(one_host)
    (one_host.job / "exit.json").write_text(json.dumps(vars(Exit(0, None))))
    (one_host.job / "process.json").write_text("{}")
    assert one_host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert slurm.calls("scancel") == []


def test_an_sbatch_that_outlives_its_agent_is_waited_for(one_host: Host, slurm: FakeSlurm) -> None:
    made = left_behind(one_host, Submission("potato-run-1.1-0a1b2c3d"))
    lock = SbatchLock(one_host.job)
    assert lock.try_to_take()
    ends = threading.Timer(1.0, lock.release)
    ends.start()
    assert one_host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert not ends.is_alive()
    assert slurm.arguments("scancel") == [[f"--name={made.name}"]]


def test_an_end_that_no_launcher_has_told_is_none_of_the_job(one_host: Host, slurm: FakeSlurm) -> None:
    made = left_behind(one_host)
    (one_host.job / "exit.json").write_text(json.dumps(vars(Exit(4, None, "cancelled"))))
    assert one_host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert slurm.arguments("scancel") == [[f"--name={made.name}"]]


def test_a_run_that_was_none_of_slurms_needs_none_of_its_commands(one_host: Host) -> None:
    one_host.job.mkdir(parents=True)
    assert one_host.request("clear_up", env={"PATH": "/nowhere"})["cleared"] == NOTHING


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"code": 8, "err": f"scancel: error: {DOWN}\n"}, "SLURM does not answer scancel"),
        ({"code": 210, "err": "scancel: error: Access/permission denied\n"}, "Access/permission denied"),
        ({"code": 1}, "scancel ended with code 1"),
    ],
)
def test_what_kept_a_job_from_being_cancelled_is_told_and_its_folder_stays(
    one_host: Host, slurm: FakeSlurm, answer: dict[str, object], words: str
) -> None:
    left_behind(one_host)
    slurm.answers("scancel", **answer)
    problem = one_host.request("clear_up", env=slurm.env)["cleared"]["problem"]
    assert problem.startswith("its SLURM job was not cancelled: ")
    assert words in problem
    assert one_host.job.is_dir()
    # Whoever clears up again finds the job by what has stayed.
    assert one_host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert not one_host.folder.exists()


def test_a_host_without_scancel_says_so(one_host: Host) -> None:
    left_behind(one_host)
    problem = one_host.request("clear_up", env={"PATH": "/nowhere"})["cleared"]["problem"]
    assert "has no scancel on PATH" in problem
    assert one_host.job.is_dir()


def test_a_torn_note_names_no_job(one_host: Host, slurm: FakeSlurm) -> None:
    left_behind(one_host)
    (one_host.job / "slurm.json").write_text("{")
    assert one_host.request("clear_up", env=slurm.env)["cleared"] == NOTHING
    assert slurm.calls("scancel") == []


def test_a_run_that_is_kept_loses_its_job_all_the_same(one_host: Host, slurm: FakeSlurm) -> None:
    made = left_behind(one_host)
    assert one_host.request("clear_up", keep=True, env=slurm.env)["cleared"] == NOTHING
    assert slurm.arguments("scancel") == [[f"--name={made.name}"]]
    assert one_host.job.is_dir()


def test_a_job_that_waits_is_stopped_by_a_request_that_its_launcher_would_find(
    host: Host, slurm: FakeSlurm
) -> None:
    left_behind(host)
    stopped = host.request("stop", grace_s=5.0, wait_s=20.0, env=slurm.env)["stopped"]
    assert stopped == {"ended": True, "has_artifacts": False}
    assert json.loads((host.job / "cancel.json").read_text("utf-8"))["reason"] == "cancelled"
    assert slurm.calls("scancel") == []  # clearing up does it, which comes next


def test_what_is_taken_up_of_a_job_that_waits_is_starting(one_host: Host, slurm: FakeSlurm) -> None:
    left_behind(one_host)
    taken_up = one_host.request("take_up", env=slurm.env)["take_up"]
    assert taken_up == {"agent": None, "job": "starting", "has_artifacts": False}
