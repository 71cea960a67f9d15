from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.bundle.splits import assign

FRACTIONS = {"train": 0.7, "val": 0.15, "test": 0.15}
IDS = [f"rev-{number:05d}" for number in range(1, 2001)]


def by_hand(key, seed):
    share = int(hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return "train" if share < 0.7 else "val" if share < 0.85 else "test"


@pytest.mark.parametrize("seed", [0, 1, 42])
def test_the_split_is_the_seeded_hash_of_the_id(seed):
    assert assign(IDS, seed, FRACTIONS) == [by_hand(key, seed) for key in IDS]


def test_ids_that_are_not_ascii_are_hashed_as_utf8():
    assert assign(["ça va 😀"], 3, FRACTIONS) == [by_hand("ça va 😀", 3)]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, min_size=1))
def test_an_item_keeps_its_split_whatever_the_others_are(ids):
    assert assign(ids, 0, FRACTIONS) == [assign([key], 0, FRACTIONS)[0] for key in ids]


def test_fractions_are_normalised_and_may_be_absent():
    assert assign(IDS, 0, {"train": 70, "val": 15, "test": 15}) == assign(IDS, 0, FRACTIONS)
    assert set(assign(IDS, 0, {"train": 1})) == {"train"}
    assert set(assign(IDS, 0, {"train": 1, "test": 1})) == {"train", "test"}


def test_no_ids_have_no_splits():
    assert assign([], 0, FRACTIONS) == []


@pytest.mark.parametrize("fractions", [{}, {"train": 0}, {"train": -1, "val": 2}, {"train": float("nan")}])
def test_fractions_that_add_up_to_nothing_are_refused(fractions):
    with pytest.raises(ValueError, match="fractions"):
        assign(IDS, 0, fractions)
