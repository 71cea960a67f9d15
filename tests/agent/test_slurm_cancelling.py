"""A SLURM job is cancelled: its launcher first, then SLURM, until it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_slurm import DOWN
from slurm_scene import AWAY, CODE, ID, SlurmScene

from potato_ray.agent.slurm.cancelling import cancel_by_name
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.submission import Submission
from potato_ray.job.follow import GONE


@pytest.fixture
def node(tmp_path: Path) -> SlurmScene:
    return SlurmScene(tmp_path)


def test_a_job_that_waits_is_cancelled_at_once(node: SlurmScene) -> None:
    place = node.submitted("PENDING", "Priority")
    place.cancel("cancelled", 20.0)
    assert node.folder.cancel.exists()
    node.turn(place)
    assert node.orders == [[ID]]
    assert node.turn(place, "CANCELLED", "Priority") == GONE
    place.end()
    end = node.folder.read_exit()
    assert end is not None
    assert (end.reason, end.detail) == ("cancelled", "It was cancelled before its worker began.")
    assert place.failure() is None


def test_a_job_that_runs_is_told_first_and_cancelled_after_its_grace(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    for after_s, n_orders in ((0.0, 1), (19.0, 1), (1.0, 2)):
        node.clock.sleep(after_s)
        place.cancel("cancelled", 20.0)
        node.turn(place)
        assert len(node.orders) == n_orders
    assert node.orders == [["--full", "--signal=TERM", ID], [ID]]


def test_a_worker_that_began_since_the_last_look_has_its_grace_too(node: SlurmScene) -> None:
    place = node.submitted("PENDING", "Priority")
    node.begins()
    place.cancel("cancelled", 20.0)
    node.turn(place)
    assert node.orders == [["--full", "--signal=TERM", ID]]


def test_a_job_that_has_ended_meanwhile_is_no_refusal(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    for words in ("Invalid job id specified", "Job/step already completing or completed"):
        node.fake.answers("scancel", code=1, err=f"scancel: error: Kill job error on job id {ID}: {words}\n")
        node.turn(place)
    assert not [line for line in node.lines if "not cancelled" in line]


def test_without_a_folder_to_share_a_job_is_followed_and_cancelled_all_the_same(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("Disk quota exceeded")

    place = node.submitted("PENDING")
    monkeypatch.setattr("potato_ray.agent.slurm.looks.Looks.look", full)
    place.cancel("cancelled", 20.0)
    node.turn(place)
    assert node.orders == [[ID]]
    assert node.turn(place, "CANCELLED") == GONE
    assert len([line for line in node.lines if "Disk quota exceeded" in line]) == 1


def test_a_job_that_is_followed_alone_is_asked_for_once_an_interval_and_missed_twice(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("Disk quota exceeded")

    monkeypatch.setattr("potato_ray.agent.slurm.looks.Looks.look", full)
    place = node.place(every_s=10.0)
    place.start(CODE)
    node.turn(place, "RUNNING", nodes="n1")
    node.turn(place)
    assert len(node.fake.calls("squeue")) == 1
    node.fake.job(ID)
    for n_calls, state in ((2, "RUNNING"), (3, None)):
        node.clock.sleep(10.0)
        node.turn(place)
        assert len(node.fake.calls("squeue")) == n_calls
        seen = place._watching().seen
        assert (seen.state if seen is not None else None) == state


def test_an_order_that_slurm_does_not_hear_is_given_again_after_the_interval(node: SlurmScene) -> None:
    place = node.place(every_s=10.0)
    place.start(CODE)
    node.turn(place, "PENDING")
    for _ in range(3):
        node.fake.answers("scancel", code=8, err=f"scancel: error: {DOWN}\n")
    place.cancel("cancelled", 20.0)
    for _ in range(30):
        node.turn(place)
        node.clock.sleep(1.0)
    assert len(node.orders) == 3
    said = [line for line in node.lines if "answer" in line]
    assert len(said) == 1
    assert "SLURM does not answer scancel" in said[0]


def test_trouble_that_nobody_thought_of_does_not_end_the_watch(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("odd")

    place = node.submitted("PENDING")
    with monkeypatch.context() as patch:
        patch.setattr("potato_ray.agent.slurm.looks.Looks.look", broken)
        node.turn(place)
    assert "cannot be looked at: KeyError('odd')" in node.lines[-1]
    assert node.turn(place, "CANCELLED") == GONE


def test_the_request_lies_in_the_folder_before_slurm_sends_a_signal(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    assert node.folder.cancel.exists()
    assert node.orders == []


def test_a_cancel_is_tried_again_while_slurm_is_away(node: SlurmScene) -> None:
    place = node.submitted("PENDING")
    place.cancel("cancelled", 20.0)
    node.fake.answers("squeue", code=1, err=AWAY)
    node.fake.answers("scancel", code=8, err=f"scancel: error: Kill job error on job id {ID}: {DOWN}\n")
    for n_orders in (1, 2):
        node.turn(place)
        assert len(node.orders) == n_orders
    assert node.orders == [[ID], [ID]]


def test_an_order_that_slurm_does_not_take_is_told_once_and_given_again(node: SlurmScene) -> None:
    node.begins()
    place = node.submitted("RUNNING", nodes="n1")
    place.cancel("cancelled", 20.0)
    refusal = f"scancel: error: Kill job error on job id {ID}: Access/permission denied\n"
    for _ in range(2):
        node.fake.answers("scancel", code=210, err=refusal)
    for _ in range(4):
        node.turn(place)
    assert node.orders == [["--full", "--signal=TERM", ID]] * 3
    said = [line for line in node.lines if "Access/permission denied" in line]
    assert len(said) == 1
    assert said[0].startswith(f"warning: SLURM job {ID} was not cancelled")


def test_nothing_is_ordered_of_a_job_that_has_ended(node: SlurmScene) -> None:
    place = node.submitted("COMPLETED", nodes="n1")
    place.cancel("cancelled", 0.0)
    node.turn(place)
    assert node.orders == []


def test_a_full_disk_does_not_keep_a_job_from_being_cancelled(
    node: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    place = node.submitted("PENDING")
    monkeypatch.setattr("potato_ray.job.folder.JobFolder.request_cancel", full)
    place.cancel("cancelled", 20.0)
    node.turn(place)
    assert node.orders == [[ID]]


def test_what_is_left_is_ended_by_name_and_what_kept_slurm_from_it_is_told(node: SlurmScene) -> None:
    place = node.submitted("RUNNING", nodes="n1")
    node.fake.answers("scancel", code=8, err=f"scancel: error: {DOWN}\n")
    place.end()
    [job] = node.fake.jobs().values()
    assert node.orders == [[f"--name={job['name']}"]]
    assert node.lines[-1].startswith(f"warning: SLURM job {ID} was not cancelled: SLURM does not answer")
    assert not node.folder.exit.exists()


def test_a_folder_that_is_gone_keeps_nobody_from_ending_the_job(node: SlurmScene) -> None:
    place = node.submitted("PENDING")
    place.cancel("cancelled", 20.0)
    node.held.discard()
    place.end()
    assert len(node.orders) == 1
    assert "could not be written" in node.lines[-1]


@pytest.mark.parametrize(("clusters", "asked"), [("far", ["far"]), ("near,far", ["near", "far"])])
def test_a_job_is_cancelled_by_name_on_each_cluster_that_may_have_it(
    node: SlurmScene, clusters: str, asked: list[str]
) -> None:
    slurm = Slurm(node.fake.env, base={}, host="login1")
    assert cancel_by_name(slurm, Submission("potato-1", cluster=clusters)) == ""
    assert node.orders == [["-M", cluster, "--name=potato-1"] for cluster in asked]


def test_what_keeps_one_cluster_from_a_cancel_keeps_no_other_from_it(node: SlurmScene) -> None:
    node.fake.answers("scancel", code=1, err="scancel: error: Access/permission denied\n")
    slurm = Slurm(node.fake.env, base={}, host="login1")
    said = cancel_by_name(slurm, Submission("potato-1", cluster="near,far"))
    assert said == "Access/permission denied"
    assert len(node.orders) == 2


def test_a_job_of_another_cluster_is_cancelled_there(node: SlurmScene) -> None:
    node.fake.answers("sbatch", out=f"{ID};far\n", submits=True)
    place = node.submitted("PENDING")
    place.cancel("cancelled", 20.0)
    node.turn(place)
    assert node.orders == [["-M", "far", ID]]
