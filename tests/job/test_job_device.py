from __future__ import annotations

from types import SimpleNamespace

import pytest

from potato_ray.job.device import choose_device


def torch(cards=(), architectures=("sm_80", "sm_90"), mps=False):
    """A torch that sees cards with these compute capabilities."""
    cuda = SimpleNamespace(
        is_available=lambda: bool(cards),
        device_count=lambda: len(cards),
        get_arch_list=lambda: list(architectures),
        get_device_capability=lambda index: cards[index],
        get_device_name=lambda index: f"card {index}",
    )
    metal = SimpleNamespace(is_available=lambda: mps)
    return SimpleNamespace(cuda=cuda, backends=SimpleNamespace(mps=metal))


@pytest.mark.parametrize(
    ("asked", "machine", "got"),
    [
        ("auto", torch([(8, 0)], mps=True), "cuda"),
        ("auto", torch(mps=True), "mps"),
        ("auto", torch(), "cpu"),
        ("cpu", torch([(8, 0)]), "cpu"),
        ("cuda:1", torch([(8, 0), (9, 0)]), "cuda:1"),
        ("mps", torch(mps=True), "mps"),
        ("auto", torch([(8, 6)]), "cuda"),
        ("auto", torch([(12, 0)], ["sm_80", "compute_90"]), "cuda"),
        ("auto", torch([(9, 0)], ["gfx90a"]), "cuda"),
        ("auto", torch([(9, 0)], ["sm_90a"]), "cuda"),
    ],
)
def test_a_device_that_is_there_is_granted_without_a_word(asked, machine, got):
    choice = choose_device(asked, machine)
    assert (choice.device, choice.warning) == (got, "")


@pytest.mark.parametrize(
    ("asked", "machine", "got"),
    [
        ("cuda", torch(), "cpu"),
        ("cuda:3", torch([(8, 0)]), "cuda"),
        ("mps", torch([(8, 0)]), "cuda"),
        ("cuda", torch(mps=True), "mps"),
        ("npu", torch(), "cpu"),
    ],
)
def test_a_device_that_is_not_there_falls_back_with_a_warning(asked, machine, got):
    choice = choose_device(asked, machine)
    assert choice.device == got
    assert choice.warning == f"The device {asked} was asked for, but it is not there; this run uses {got}."


@pytest.mark.parametrize("card", [(7, 5), (10, 0)])
@pytest.mark.parametrize("asked", ["auto", "cuda"])
def test_a_torch_without_kernels_for_the_card_is_not_used_on_it(asked, card):
    choice = choose_device(asked, torch([card]))
    assert choice.device == "cpu"
    assert "This host's torch has no kernels for any of its GPUs" in choice.warning


def test_the_card_is_described_by_name():
    assert choose_device("cuda:1", torch([(8, 0), (9, 0)])).description == "cuda:1 (card 1)"
