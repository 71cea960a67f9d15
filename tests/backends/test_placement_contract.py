"""What every backend keeps when it is checked and asked for a place, shown on each of them."""

from __future__ import annotations

import json

import pytest
from contract_places import FREE_MB, ContractPlace, MakeJob
from listening import Listener, left_by, lose_after_five

from potato_ray.backends.base import Backend, Placement, Refusal


def test_the_check_says_what_it_checked(backend: Backend) -> None:
    report = backend.check()
    assert (report.backend, report.type) == (backend.name, backend.type)
    assert report.ok
    assert report.checks
    assert len(report.summary.splitlines()) == 1
    assert json.loads(json.dumps(report.facts)) == report.facts


def test_a_check_that_finds_what_keeps_runs_from_starting_says_what_to_do(place: ContractPlace) -> None:
    report = place.unfit().check()
    assert not report.ok
    assert all(check.message and check.next_step for check in report.checks if not check.ok)


def test_a_check_changes_nothing(backend: Backend, new_job: MakeJob) -> None:
    before, job = backend.place(set()), new_job("wait")
    left_by(backend, job, Listener(lose_after_five))
    files = sorted(job.folder.iterdir())
    backend.check()
    assert backend.place(set()) == before
    assert backend.alive(job.folder)
    assert set(files) <= set(job.folder.iterdir())


def test_no_two_runs_share_a_gpu_and_a_run_waits_until_one_is_given_back(
    giving_place: ContractPlace,
) -> None:
    uuids = giving_place.have_cards(FREE_MB)
    backend, taken = giving_place.backend(), set[str]()
    for uuid in (uuids[1], uuids[2], uuids[0]):
        placement = backend.place(taken)
        assert isinstance(placement, Placement)
        assert placement.gpu_uuids == (uuid,)
        taken.add(uuid)
    refusal = backend.place(taken)
    assert isinstance(refusal, Refusal)
    assert refusal.wait
    again = backend.place(taken - {uuids[2]})
    assert isinstance(again, Placement)
    assert again.gpu_uuids == (uuids[2],)


def test_full_gpus_refuse_a_run_for_good_and_say_how_full_they_are(giving_place: ContractPlace) -> None:
    giving_place.have_cards((900, 800))
    refusal = giving_place.backend().place(set())
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.wait) == ("no_gpu_free", False)
    assert refusal.message
    assert refusal.next_step
    assert "900" in refusal.evidence


def test_a_placement_says_where_in_one_line(place: ContractPlace, backend: Backend) -> None:
    placement = backend.place(set())
    assert isinstance(placement, Placement)
    assert placement.backend == backend.name
    assert placement.device.partition(":")[0] == place.device
    assert len(placement.step.splitlines()) == 1


def test_slots_tell_the_cards_apart(giving_place: ContractPlace) -> None:
    uuids, slots = giving_place.have_cards(FREE_MB), set[int]()
    for taken in (set[str](), {uuids[1]}, {uuids[1], uuids[2]}):
        placement = giving_place.backend().place(taken)
        assert isinstance(placement, Placement)
        assert len(placement.slots) == 1
        slots.update(placement.slots)
    assert len(slots) == 3


@pytest.mark.parametrize("free_mb", [FREE_MB, (900, 800)])
def test_gpus_that_are_not_the_servers_to_give_are_neither_reserved_nor_waited_for(
    keeping_place: ContractPlace, free_mb: tuple[int, ...]
) -> None:
    uuids = keeping_place.have_cards(free_mb)
    for taken in (set[str](), set(uuids)):
        placement = keeping_place.backend().place(taken)
        assert isinstance(placement, Placement)
        assert (placement.gpu_uuids, placement.slots) == ((), ())


def test_a_trainer_without_use_for_a_gpu_gets_none(backend: Backend) -> None:
    placement = backend.place(set(), uses_gpu=False)
    assert isinstance(placement, Placement)
    assert (placement.device, placement.gpu_uuids, placement.slots) == ("cpu", (), ())


def test_a_place_without_gpus_trains_on_its_cpu(place: ContractPlace) -> None:
    place.have_cards(())
    placement = place.backend().place(set())
    assert isinstance(placement, Placement)
    assert (placement.gpu_uuids, placement.slots) == ((), ())
