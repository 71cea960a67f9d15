"""A worker as a SLURM job, from an agent's side: its start, and how it stands."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fake_slurm import DOWN
from slurm_scene import AWAY, CODE, ID, SlurmScene

from potato_ray.agent.apart import Interrupted
from potato_ray.agent.launching import NotLaunched
from potato_ray.agent.slurm.place import ASKED_SETTLE_S, SETTLE_S
from potato_ray.agent.slurm.sbatch_lock import SbatchLock
from potato_ray.agent.slurm.submission import Submission
from potato_ray.job.folder import Exit
from potato_ray.job.follow import ALIVE, ENDED, GONE, STARTING

SUCCESS = Exit(0, None)


@pytest.fixture
def node(tmp_path: Path) -> SlurmScene:
    return SlurmScene(tmp_path)


def test_a_job_is_submitted_and_told_with_what_it_asks_for(node: SlurmScene) -> None:
    place = node.place()
    assert not place.has_started()
    place.start(CODE)
    assert place.has_started()
    assert node.lines == [f"Submitted SLURM job {ID}: --mem=1G"]
    assert node.steps == ["submitting the job to SLURM", f"waiting for SLURM job {ID}: submitted"]
    assert f"{CODE}/potato_ray/job/start.py launcher {node.folder.path}" in (
        node.folder.path / "job.sh"
    ).read_text("utf-8")


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING", "REQUEUE_HOLD"])
def test_a_job_without_a_node_is_starting(node: SlurmScene, state: str) -> None:
    place = node.submitted(state)
    assert place.state() == STARTING


def test_it_is_starting_until_its_launcher_speaks_and_alive_then(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    assert place.state() == STARTING
    node.begins()
    assert place.state() == ALIVE


def test_a_worker_that_began_since_the_last_look_is_alive(node: SlurmScene) -> None:
    place = node.submitted("PENDING")
    node.begins()
    assert place.state() == ALIVE


def test_a_job_that_is_suspended_lives(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("SUSPENDED", nodes="n1")
    assert place.state() == ALIVE


def test_it_has_ended_when_its_exit_is_there_whatever_slurm_says(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.folder.write_exit(SUCCESS)
    assert place.state() == ENDED


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT", "CANCELLED"])
def test_a_job_that_slurm_has_ended_is_gone_once_its_exit_has_had_time_to_come(
    node: SlurmScene, state: str
) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.begins()
    assert node.turn(place, state, nodes="n1") == ALIVE
    node.clock.sleep(SETTLE_S - 1.0)
    assert place.state() == ALIVE
    node.clock.sleep(1.0)
    assert place.state() == GONE


def test_a_line_of_the_prelude_that_failed_is_told_of_a_worker_that_began_all_the_same(
    node: SlurmScene,
) -> None:
    place = node.submitted("RUNNING", nodes="n1", prelude=("module load cuda",))
    (node.folder.path / "slurm.out").write_text(
        "job.sh: line 14: module: command not found\npotato-ray: line 1 of the prelude failed with code 127\n"
    )
    node.begins()
    for _ in range(3):
        place.state()
    node.folder.write_exit(SUCCESS)
    assert place.state() == ENDED
    told = [line for line in node.lines if "prelude" in line]
    assert told == [
        "warning: Line 1 of its prelude failed with code 127: module: command not found;"
        " the worker began all the same"
    ]


def test_a_job_that_was_ended_before_its_worker_began_is_soon_gone(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    node.turn(place, "FAILED", "JobLaunchFailure", "n1")
    assert node.lines[-1] == f"SLURM job {ID}: FAILED (JobLaunchFailure) on n1, after its cancel"
    assert place.state() == ALIVE
    node.clock.sleep(ASKED_SETTLE_S)
    assert place.state() == GONE


def test_an_exit_that_comes_late_is_the_end(node: SlurmScene) -> None:
    place = node.submitted("COMPLETED", nodes="n1")
    node.clock.sleep(SETTLE_S - 1.0)
    node.folder.write_exit(SUCCESS)
    assert place.state() == ENDED


def test_a_job_that_slurm_does_not_know_is_gone_after_the_same_time(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.job(ID)
    for _ in range(2):  # one look without it is not believed
        assert node.turn(place) in (STARTING, ALIVE)
    assert place.state() == ALIVE
    node.clock.sleep(SETTLE_S)
    assert place.state() == GONE


def test_a_job_that_is_seen_again_has_its_time_anew(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("COMPLETED", nodes="n1")
    node.clock.sleep(SETTLE_S - 1.0)
    assert node.turn(place, "RUNNING", nodes="n1") == ALIVE
    assert node.turn(place, "COMPLETED", nodes="n1") == ALIVE
    node.clock.sleep(1.0)
    assert place.state() == ALIVE


def test_a_job_that_is_back_in_the_queue_after_its_worker_ran_is_gone(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.begins()
    assert node.turn(place, "PENDING", "BeginTime") == GONE


def test_a_job_that_was_requeued_before_its_worker_began_starts_again(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    assert node.turn(place, "PENDING", "BeginTime") == STARTING


def test_a_slurm_that_is_away_changes_nothing(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    for _ in range(3):
        node.fake.answers("squeue", code=1, err=AWAY)
        node.clock.sleep(SETTLE_S)
        assert node.turn(place) == ALIVE


def test_the_next_agent_takes_the_job_up_where_it_is(node: SlurmScene) -> None:
    node.submitted("RUNNING", nodes="n1").close()
    node.begins()
    place = node.place()
    assert place.has_started()
    assert place.state() == ALIVE
    assert node.turn(place) == ALIVE
    assert len(node.fake.calls("sbatch")) == 1


def test_a_submission_that_is_broken_off_is_cancelled_by_its_name(node: SlurmScene) -> None:
    node.fake.answers("sbatch", code=1, err=f"sbatch: error: {DOWN}\n", submits=True)
    node.is_unwanted = True
    place = node.place()
    with pytest.raises(Interrupted):
        place.start(CODE)
    place.end()
    [job] = node.fake.jobs().values()
    # A controller that hung may take sbatch's words after the first.
    assert node.orders == [[f"--name={job['name']}"]] * 2
    assert not place.may_go_on


def test_an_sbatch_that_was_let_go_of_is_waited_for_before_its_job_is_cancelled(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.agent.apart.PART_S", 0.0)
    node.fake.answers("sbatch", delay_s=1.0, out=f"{ID}\n", submits="late")
    node.is_unwanted = True
    place = node.place()
    with pytest.raises(Interrupted):
        place.start(CODE)
    place.end()
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]] * 2


def test_an_sbatch_of_the_agent_before_is_waited_for_too(node: SlurmScene) -> None:
    node.fake.answers("sbatch", code=1, err=f"sbatch: error: {DOWN}\n")
    node.is_unwanted = True
    place = node.place()
    with pytest.raises(Interrupted):
        place.start(CODE)
    before = SbatchLock(node.folder.path)
    assert before.try_to_take()
    ending = threading.Thread(target=place.end)
    ending.start()
    ending.join(0.5)
    assert ending.is_alive()
    assert node.orders == []
    before.release()
    ending.join(20)
    assert len(node.orders) == 2


def test_an_sbatch_that_answers_just_in_time_has_a_job_to_be_followed(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.agent.apart.PART_S", 10.0)
    node.fake.answers("sbatch", delay_s=0.3, out=f"{ID}\n", submits=True)
    node.is_unwanted = True
    place = node.place()
    place.start(CODE)
    assert place.has_started()


def test_a_slurm_that_is_away_is_asked_again_to_cancel_what_was_broken_off(node: SlurmScene) -> None:
    node.fake.answers("sbatch", code=1, err=f"sbatch: error: {DOWN}\n", submits=True)
    node.is_unwanted = True
    place = node.place()
    with pytest.raises(Interrupted):
        place.start(CODE)
    for _ in range(3):
        node.fake.answers("scancel", code=8, err=f"scancel: error: {DOWN}\n")
    place.end()
    assert len(node.orders) == 5
    assert not place.may_go_on
    assert len([line for line in node.lines if "SLURM has not taken the cancel" in line]) == 1


def test_a_cancel_that_slurm_never_took_is_no_end_of_the_job(node: SlurmScene) -> None:
    place = node.submitted("PENDING")
    place.cancel("cancelled", 20.0)
    node.fake.answers("scancel", code=8, err=f"scancel: error: {DOWN}\n")
    place.end()
    assert place.may_go_on
    end = node.folder.read_exit()
    assert end is not None
    assert "SLURM has not taken that yet" in end.detail
    # The agent after this one knows it by the folder.
    after = node.place()
    assert after.may_go_on
    after.end()
    assert not after.may_go_on


def test_a_job_whose_id_cannot_be_noted_is_cancelled(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(submission: Submission, folder: Path) -> None:
        if submission.job_id:
            raise OSError("no space")
        write(submission, folder)

    write = Submission.write
    monkeypatch.setattr(Submission, "write", full)
    place = node.place()
    with pytest.raises(OSError, match="no space"):
        place.start(CODE)
    place.end()
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]] * 2  # for all that is known, an sbatch may be under way


def test_a_job_that_slurm_refused_is_none_that_lives(node: SlurmScene) -> None:
    node.fake.answers("sbatch", code=1, err="sbatch: error: invalid partition specified: x\n")
    place = node.place()
    with pytest.raises(NotLaunched):
        place.start(CODE)
    assert place.state() == STARTING
    assert not place.has_started()
    assert place.failure() is None
