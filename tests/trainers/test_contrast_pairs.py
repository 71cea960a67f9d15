from typing import Any

import numpy as np
import pytest

from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.contrast_pairs import FEW_TEXTS, MOST_PAIRS, SAMPLING, Pairs, draw_pairs

FEW = np.array([0] * 8 + [1] * 4)
"""Their pairs: 28 and 6 alike, 32 unlike."""
MANY = np.arange(40 * FEW_TEXTS) % 7


def counts(pairs: Pairs) -> tuple[int, int]:
    return int(pairs.alike.sum()), int((~pairs.alike).sum())


@pytest.mark.parametrize(
    ("sampling", "expected"), [("oversampling", (34, 34)), ("undersampling", (32, 32)), ("unique", (34, 32))]
)
def test_few_texts_give_all_their_pairs_balanced_as_asked(sampling: str, expected: tuple[int, int]) -> None:
    assert counts(draw_pairs("nominal", FEW, sampling, 1000, seed=0)) == expected


@pytest.mark.parametrize("targets", [FEW, MANY], ids=["few", "many"])
def test_pairs_are_of_two_items_and_alike_where_their_answers_are(targets: Any) -> None:
    pairs = draw_pairs("nominal", targets, "oversampling", 400, seed=3)
    assert (pairs.first != pairs.second).all()
    assert ((targets[pairs.first] == targets[pairs.second]) == pairs.alike).all()


def test_no_more_pairs_are_drawn_than_asked_for_nor_than_memory_should_hold() -> None:
    assert counts(draw_pairs("nominal", MANY, "oversampling", 50, seed=0)) == (25, 25)
    assert len(draw_pairs("nominal", MANY, "oversampling", 10 * MOST_PAIRS, seed=0)) == MOST_PAIRS


def test_a_label_for_every_few_of_many_texts_still_gives_half_alike_pairs() -> None:
    rare = np.arange(4 * FEW_TEXTS) // 4
    assert counts(draw_pairs("nominal", rare, "oversampling", 600, seed=0)) == (300, 300)


def test_unique_keeps_the_shares_that_pairs_have() -> None:
    alike, unlike = counts(draw_pairs("nominal", MANY, "unique", 7000, seed=0))
    assert (alike, alike + unlike) == (pytest.approx(1000, abs=150), 7000)


@pytest.mark.parametrize(
    "alone", [np.arange(300) == 7, np.append(np.arange(3000), 0)], ids=["unlike", "alike"]
)
def test_unique_takes_one_pair_of_either_kind_however_rare_that_is(alone: Any) -> None:
    pairs = draw_pairs("nominal", alone.astype(int), "unique", 8, seed=0)
    assert (len(pairs), min(counts(pairs))) == (8, 1)


def test_sets_are_alike_that_share_a_label_or_are_empty_both() -> None:
    sets = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=bool)
    pairs = draw_pairs("multilabel", sets, "unique", 100, seed=0)
    pairs_of = sorted(zip(pairs.first[pairs.alike].tolist(), pairs.second[pairs.alike].tolist(), strict=True))
    assert pairs_of == [(0, 1), (1, 2), (3, 4)]


def test_a_seed_draws_the_same_pairs_again_and_another_one_others() -> None:
    one, again, other = (draw_pairs("nominal", MANY, "oversampling", 100, seed) for seed in (1, 1, 2))
    assert one.first.tolist() == again.first.tolist() != other.first.tolist()


def test_answers_that_are_all_different_are_refused_with_advice() -> None:
    with pytest.raises(TrainerError, match="No two of the 5 train items") as refusal:
        draw_pairs("nominal", np.arange(5), "oversampling", 100, seed=0)
    assert "two items or more of each label" in refusal.value.next_step


@pytest.mark.parametrize("sampling", SAMPLING)
def test_a_label_that_all_items_have_makes_none_of_them_alike(sampling: str) -> None:
    sets = np.array([[1, number % 2, number % 2 == 0] for number in range(8)], dtype=bool)
    pairs = draw_pairs("multilabel", sets, sampling, 100, seed=0)
    assert set(zip(pairs.first % 2 == pairs.second % 2, pairs.alike, strict=True)) == {
        (True, True),
        (False, False),
    }


@pytest.mark.parametrize("sets", [[[1]] * 4, [[1, 1, 0], [0, 1, 1], [1, 0, 1]]])
def test_answers_that_are_all_alike_are_refused_with_advice(sets: list[list[int]]) -> None:
    with pytest.raises(TrainerError, match="train items have unlike answers") as refusal:
        draw_pairs("multilabel", np.array(sets, dtype=bool), "oversampling", 100, seed=0)
    assert refusal.value.code == "validation_failed"
    assert "share no label" in refusal.value.next_step
