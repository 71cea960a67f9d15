from __future__ import annotations

from collections.abc import Callable

import pytest

from potato_ray.backends.base import Placement, Refusal
from potato_ray.backends.device import Machine, place_local, visible, visible_here
from potato_ray.backends.gpus import Card, Listing
from potato_ray.backends.torch_build import TorchBuild

ListingOf = Callable[[str], Listing]
NO_GPU = Machine(Listing(problem="nvidia-smi was not found", installed=False))
MAC = Machine(NO_GPU.listing, has_mps=True)


def placed(device: str, machine: Machine, taken: frozenset[str] = frozenset()) -> Placement:
    placement = place_local("local", device, machine, taken=taken)
    assert isinstance(placement, Placement), placement
    return placement


@pytest.fixture
def three_cards(listing_of: ListingOf) -> Machine:
    return Machine(listing_of("three_cards"))


def test_auto_takes_cuda_first(three_cards: Machine) -> None:
    placement = placed("auto", three_cards)
    assert placement.step == "local: this machine, CUDA (NVIDIA A100-SXM4-40GB, GPU 1, 39000 MB free)"
    assert placement.device == "cuda"
    assert placement.gpu_uuids == ("GPU-1f0e6b0a-0d5e-4c3a-9a51-6f1f0d6a0002",)
    assert placement.slots == (1,)


def test_auto_takes_apple_metal_where_there_is_no_cuda() -> None:
    assert placed("auto", MAC) == Placement("local", "mps", step="local: this machine, Apple Metal (mps)")


def test_auto_takes_the_cpu_at_last_and_says_nothing_of_it() -> None:
    assert placed("auto", NO_GPU) == Placement("local", "cpu", step="local: this machine, CPU")


def test_a_broken_driver_leads_to_the_cpu_with_a_warning(listing_of: ListingOf) -> None:
    placement = placed("auto", Machine(listing_of("driver_mismatch")))
    assert placement.device == "cpu"
    assert "Driver/library version mismatch" in placement.warnings[0]


def test_a_torch_without_cuda_leads_to_the_cpu_with_a_warning(three_cards: Machine) -> None:
    placement = placed("auto", Machine(three_cards.listing, torch=TorchBuild("2.9.0+cpu", "")))
    assert placement.device == "cpu"
    assert "built without CUDA" in placement.warnings[0]


def test_cpu_is_the_cpu_even_beside_gpus(three_cards: Machine) -> None:
    assert placed("cpu", three_cards).gpu_uuids == ()


def test_a_named_card_is_taken_however_full_it_is(three_cards: Machine) -> None:
    placement = place_local("local", "cuda:0", three_cards, min_free_mb=40000)
    assert isinstance(placement, Placement)
    assert placement.gpu_uuids == (three_cards.cards[0].uuid,)
    assert placement.warnings == ()


def test_a_named_card_that_is_not_there_falls_back_to_another_with_a_warning(three_cards: Machine) -> None:
    placement = placed("cuda:7", three_cards)
    assert placement.slots == (1,)
    assert (
        "model_training.device is cuda:7, but the GPUs of this machine are 0, 1, 2" in placement.warnings[0]
    )


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_cuda_asked_for_and_not_there_falls_back_with_a_warning(device: str) -> None:
    assert placed(device, MAC).device == "mps"
    placement = placed(device, NO_GPU)
    assert placement.device == "cpu"
    assert placement.warnings == (
        f"model_training.device is {device}, but this machine has no CUDA GPU to use "
        "(nvidia-smi was not found); training on the CPU.",
    )


def test_mps_asked_for_and_not_there_falls_back_with_a_warning(three_cards: Machine) -> None:
    assert placed("mps", three_cards).device == "cuda"
    assert "no Apple Metal" in placed("mps", three_cards).warnings[0]
    assert placed("mps", NO_GPU).warnings == (
        "model_training.device is mps, but this machine has no Apple Metal; training on the CPU.",
    )


def test_full_cards_are_refused_with_the_way_out_of_a_local_run(three_cards: Machine) -> None:
    refusal = place_local("local", "auto", three_cards, min_free_mb=50000)
    assert isinstance(refusal, Refusal)
    assert refusal.message == "No GPU has 50000 MB free."
    assert "model_training.device: cuda:N" in refusal.next_step


def test_cards_without_kernels_are_refused_with_the_way_out(three_cards: Machine) -> None:
    machine = Machine(three_cards.listing, torch=TorchBuild("2.9", "12.8", ("sm_120",)))
    refusal = place_local("local", "auto", machine)
    assert isinstance(refusal, Refusal)
    assert refusal.next_step.endswith("set model_training.device to cpu.")


def test_three_runs_get_three_cards_and_the_fourth_waits(three_cards: Machine) -> None:
    taken: frozenset[str] = frozenset()
    for _ in range(3):
        taken |= set(placed("auto", three_cards, taken).gpu_uuids)
    refusal = place_local("local", "auto", three_cards, taken=taken)
    assert len(taken) == 3
    assert isinstance(refusal, Refusal)
    assert refusal.wait


@pytest.mark.parametrize(
    ("setting", "left"),
    [(None, [0, 1]), ("", []), ("-1", []), ("1", [1]), ("GPU-a", [0]), ("1,GPU-a", [0, 1]), ("7", [])],
)
def test_cards_hidden_from_this_process_are_not_used(setting: str | None, left: list[int]) -> None:
    cards = (Card(0, "GPU-abc", "X"), Card(1, "GPU-def", "X"))
    assert [card.index for card in visible(cards, setting)] == left


def test_a_machine_with_hidden_cards_says_why_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    listing = visible_here(Listing((Card(0, "GPU-abc", "X"),)))
    assert (listing.cards, listing.problem) == ((), "CUDA_VISIBLE_DEVICES hides them all")
