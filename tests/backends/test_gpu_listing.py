from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import fake_nvidia_smi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.backends.gpus import Listing, list_cards, parse_cards, slots_of
from potato_ray.backends.mig import parse_instances
from potato_ray.backends.smi import run_nvidia_smi
from potato_ray.job.command import Answer

ListingOf = Callable[[str], Listing]


def test_a_plain_answer_gives_every_value_of_every_card(listing_of: ListingOf) -> None:
    listing = listing_of("three_cards")
    card = listing.cards[1]
    assert [c.index for c in listing.cards] == [0, 1, 2]
    assert (card.name, card.total_mb, card.free_mb) == ("NVIDIA A100-SXM4-40GB", 40960, 39000)
    assert (card.utilisation_percent, card.compute_capability, card.problem) == (97, "8.0", "")
    assert listing.problem == ""


@pytest.mark.parametrize(
    ("machine", "free_mb", "utilisation"), [("old_driver", [11441, 441], 0), ("older_driver", [5365], None)]
)
def test_a_driver_that_lacks_fields_is_asked_for_fewer(
    listing_of: ListingOf, machine: str, free_mb: list[float], utilisation: float | None
) -> None:
    cards = listing_of(machine).cards
    assert [card.free_mb for card in cards] == free_mb
    assert cards[0].utilisation_percent == utilisation
    assert cards[0].compute_capability == ""


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        ("no_devices", ""),
        ("silent", ""),
        ("driver_mismatch", "Driver/library version mismatch NVML library version: 535.183"),
        ("no_driver", "couldn't communicate with the NVIDIA driver"),
    ],
)
def test_an_answer_without_cards_is_an_empty_list_with_its_reason(
    listing_of: ListingOf, machine: str, problem: str
) -> None:
    listing = listing_of(machine)
    assert listing.cards == ()
    assert problem in listing.problem
    assert bool(problem) == bool(listing.problem)


def test_unified_memory_is_unknown_memory_of_a_working_card(listing_of: ListingOf) -> None:
    (card,) = listing_of("unified_memory").cards
    assert (card.total_mb, card.free_mb, card.problem) == (None, None, "")
    assert card.memory == "free memory unknown"


def test_values_that_cannot_be_read_are_unknown(listing_of: ListingOf) -> None:
    cards = listing_of("partly_unknown").cards
    assert [card.free_mb for card in cards] == [None, None, 40000]
    assert [card.total_mb for card in cards] == [2002, None, 49140]
    assert all(card.utilisation_percent is None and not card.problem for card in cards)


def test_a_broken_card_says_what_is_wrong_with_it(listing_of: ListingOf) -> None:
    listing = listing_of("broken_cards")
    assert [card.problem for card in listing.cards] == ["Unknown Error", "GPU requires reset", ""]
    assert "GPU is lost" in listing.problem


def test_commas_in_a_name_belong_to_the_name(listing_of: ListingOf) -> None:
    (card,) = listing_of("comma_in_name").cards
    assert (card.name, card.free_mb, card.compute_capability) == ("Quadro RTX 6000, rev. B", 24000, "7.5")


def test_a_warning_of_the_driver_is_no_card(listing_of: ListingOf) -> None:
    listing = listing_of("noise")
    assert [card.name for card in listing.cards] == ["NVIDIA L4"]


def test_a_card_in_mig_mode_is_replaced_by_its_instances_with_their_own_memory(listing_of: ListingOf) -> None:
    cards = listing_of("mig").cards
    assert [card.label for card in cards] == ["GPU 0 MIG 0", "GPU 0 MIG 1", "GPU 0 MIG 2", "GPU 1"]
    assert [card.free_mb for card in cards] == [2448, 9716, None, 6920]
    assert cards[1].uuid == "MIG-feb88891-0000-5000-8000-000000000002"
    assert cards[1].name == "NVIDIA A100-SXM4-80GB MIG 1g.10gb"


def test_a_card_in_mig_mode_without_instances_cannot_be_used(listing_of: ListingOf) -> None:
    (card,) = listing_of("mig_without_instances").cards
    assert card.problem == "MIG is on, but the card has no MIG instance"


def test_mig_instances_without_readable_details_have_unknown_memory() -> None:
    listed = "GPU 0: X (UUID: GPU-a)\n  MIG 1g.5gb  Device  0: (UUID: MIG-b)\n"
    (instance,) = parse_instances(listed, "no XML at all")
    assert (instance.uuid, instance.free_mb) == ("MIG-b", None)


def test_slots_follow_the_pci_order_and_end_at_sixteen(listing_of: ListingOf) -> None:
    cards = parse_cards(
        "".join(f"{n}, GPU-{n}, X, 1, 0, 1, 0, 8.0, Disabled\n" for n in (3, 1, *range(4, 25)))
    )
    slots = slots_of(cards)
    assert (slots["GPU-1"], slots["GPU-3"], slots["GPU-4"]) == (0, 1, 2)
    assert sorted(slots.values()) == list(range(16))


@given(st.text(alphabet=st.sampled_from("0123456789,[]NA/ GPU-\n."), max_size=200) | st.text())
def test_no_text_makes_the_parser_raise(text: str) -> None:
    parse_cards(text)
    parse_instances(text, text)


def test_the_program_on_path_is_run(smi_dir: Path) -> None:
    uuids = fake_nvidia_smi.write_cards(smi_dir, [100, 200])
    assert [card.uuid for card in list_cards().cards] == uuids


def test_a_machine_without_nvidia_smi_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("potato_ray.backends.smi._ALSO_AT", str(tmp_path))
    listing = list_cards()
    assert (listing.cards, listing.installed) == ((), False)
    assert listing.problem == "nvidia-smi was not found"


def test_a_hanging_driver_is_given_up_at_the_deadline(smi_dir: Path) -> None:
    (smi_dir / "delay_s").write_text("60")
    before = time.monotonic()
    answer = run_nvidia_smi(["-L"], 0.2)
    assert answer == Answer(None, "nvidia-smi did not answer within 0.2 s")
    assert time.monotonic() - before < 5
