from __future__ import annotations

from collections.abc import Callable

import pytest

from potato_ray.backends.base import Refusal
from potato_ray.backends.choice import Choice, choose, parse_wanted, state_of
from potato_ray.backends.gpus import Card, Listing
from potato_ray.backends.torch_build import TorchBuild

ListingOf = Callable[[str], Listing]


def card(index: int, free_mb: float | None, **more: object) -> Card:
    return Card(index, f"GPU-{index}", "X", total_mb=24000, free_mb=free_mb, **more)  # type: ignore[arg-type]


def indices(choice: Choice | Refusal) -> list[int]:
    assert isinstance(choice, Choice), choice
    return [chosen.index for chosen in choice.cards]


def refusal(choice: Choice | Refusal) -> Refusal:
    assert isinstance(choice, Refusal), choice
    return choice


def test_auto_takes_the_most_free_memory_and_not_the_least_utilisation(listing_of: ListingOf) -> None:
    assert indices(choose(listing_of("three_cards").cards, "auto")) == [1]


def test_among_equally_free_cards_the_idler_one_is_taken() -> None:
    cards = [card(0, 9000, utilisation_percent=80), card(1, 9000, utilisation_percent=3)]
    assert indices(choose(cards, "auto")) == [1]


def test_a_machine_without_a_card_trains_on_its_cpu_under_auto() -> None:
    assert choose([], "auto") == Choice()


def test_none_means_the_cpu_whatever_there_is() -> None:
    assert choose([card(0, 24000)], "none") == Choice()


def test_a_held_card_is_never_chosen() -> None:
    assert indices(choose([card(0, 20000), card(1, 9000)], "auto", taken={"GPU-0"})) == [1]


def test_auto_refuses_when_no_card_has_enough_and_tells_each_card(listing_of: ListingOf) -> None:
    cards = listing_of("three_cards").cards
    refused = refusal(choose(cards, "auto", min_free_mb=40000))
    assert (refused.code, refused.message) == ("no_gpu_free", "No GPU has 40000 MB free.")
    assert "GPU 0 (NVIDIA A100-SXM4-40GB): 8233 of 40960 MB free; GPU 1" in refused.evidence
    assert not refused.wait
    assert refused.next_step


def test_exactly_the_asked_memory_is_enough() -> None:
    assert indices(choose([card(0, 4000)], "auto", min_free_mb=4000)) == [0]
    assert refusal(choose([card(0, 3999)], "auto", min_free_mb=4000))


def test_a_run_waits_for_a_card_that_another_run_of_ours_holds() -> None:
    refused = refusal(choose([card(0, 300), card(1, 1000)], "auto", taken={"GPU-0"}))
    assert refused.wait
    assert "GPU 0 (X): 300 of 24000 MB free, held by another run" in refused.evidence


def test_no_run_waits_for_a_held_card_that_is_too_small_anyway() -> None:
    refused = refusal(choose([card(0, 300)], "auto", taken={"GPU-0"}, min_free_mb=30000))
    assert not refused.wait


def test_unified_memory_is_used_unchecked_with_a_warning(listing_of: ListingOf) -> None:
    choice = choose(listing_of("unified_memory").cards, "auto", min_free_mb=4000)
    assert indices(choice) == [0]
    assert isinstance(choice, Choice)
    assert "does not tell its free memory" in choice.warnings[0]


def test_a_readable_card_beats_an_unreadable_one(listing_of: ListingOf) -> None:
    assert indices(choose(listing_of("partly_unknown").cards, "auto")) == [2]


def test_unreadable_cards_beside_full_readable_ones_are_not_tried(listing_of: ListingOf) -> None:
    refused = refusal(choose(listing_of("partly_unknown").cards, "auto", min_free_mb=45000))
    assert "GPU 1 (NVIDIA RTX A6000): free memory unknown" in refused.evidence


def test_broken_cards_are_left_out_and_named(listing_of: ListingOf) -> None:
    cards = listing_of("broken_cards").cards
    assert indices(choose(cards, "auto")) == [3]
    refused = refusal(choose(cards[:2], "auto"))
    assert "cannot be used (Unknown Error)" in refused.evidence


def test_auto_takes_the_freest_mig_instance_with_its_own_memory(listing_of: ListingOf) -> None:
    choice = choose(listing_of("mig").cards, "auto", min_free_mb=8000)
    assert isinstance(choice, Choice)
    assert [chosen.label for chosen in choice.cards] == ["GPU 0 MIG 1"]


def test_pins_are_taken_however_full_they_are(listing_of: ListingOf) -> None:
    cards = listing_of("three_cards").cards
    assert indices(choose(cards, (0,), min_free_mb=40000)) == [0]
    assert indices(choose(cards, (2, 0), min_free_mb=40000)) == [2, 0]


def test_a_pinned_card_that_a_run_holds_is_waited_for() -> None:
    refused = refusal(choose([card(0, 1), card(1, 2)], (0, 1), taken={"GPU-1"}))
    assert (refused.code, refused.wait) == ("no_gpu_free", True)
    assert refused.message == "GPU 1 (X) is held by another run."


def test_a_pinned_card_that_is_not_there_is_refused_for_good() -> None:
    refused = refusal(choose([card(0, 1)], (4,)))
    assert (refused.message, refused.wait) == ("There is no GPU 4 on this host.", False)


def test_a_process_gets_at_most_one_mig_instance(listing_of: ListingOf) -> None:
    choice = choose(listing_of("mig").cards, (0, 1))
    assert isinstance(choice, Choice)
    assert [chosen.label for chosen in choice.cards] == ["GPU 0 MIG 1"]
    assert "one MIG instance" in choice.warnings[0]


def test_cards_without_kernels_are_skipped_under_auto_and_marked() -> None:
    old, new = card(0, 20000, compute_capability="3.7"), card(1, 9000, compute_capability="8.0")
    kernels = TorchBuild("2.9", "12.8", ("sm_75", "sm_80")).has_kernels_for
    assert indices(choose([old, new], "auto", kernels=kernels)) == [1]
    assert state_of(old, kernels=kernels).endswith("MB free (torch there has no kernels for it)")


def test_a_machine_whose_torch_fits_no_card_is_refused() -> None:
    refused = refusal(choose([card(0, 20000)], "auto", kernels=lambda card: False))
    assert refused.code == "unfitting_device"
    assert refused.message == "This host's torch has no kernels for any of its GPUs."


def test_a_pinned_card_without_kernels_is_tried_with_a_warning() -> None:
    choice = choose([card(0, 20000)], (0,), kernels=lambda card: False)
    assert isinstance(choice, Choice)
    assert "torch there has no kernels for it" in choice.warnings[0]


@pytest.mark.parametrize(
    ("gpus", "wanted"),
    [("auto", "auto"), ("none", "none"), ("1", (1,)), (0, (0,)), ("0, 1", (0, 1)), ("2,2", (2,))],
)
def test_the_forms_of_the_gpus_key(gpus: str | int, wanted: object) -> None:
    assert parse_wanted(gpus) == wanted


@pytest.mark.parametrize("gpus", ["all", "", "0,", "-1", "cuda:0", "1.5"])
def test_other_forms_of_the_gpus_key_are_refused(gpus: str) -> None:
    with pytest.raises(ValueError, match="auto, none, or indices"):
        parse_wanted(gpus)
