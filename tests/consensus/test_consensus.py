"""One answer per item: by kind, with ties, disagreement and items that stay unresolved."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from crowd_tables import table_of
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.bundle.splits import assign
from potato_ray.errors import Cancelled
from potato_ray.project.answers import AnswerTable
from potato_ray.project.consensus import Resolution, resolve
from potato_ray.project.polling import StopPoll
from potato_ray.trainers import kinds

SCALE = ["1", "2", "3", "4", "5"]
OTHERS = (kinds.TEXT, kinds.SPAN, kinds.GEOMETRY, kinds.RANKING)
BOTH = pytest.mark.parametrize("aggregation", ["consensus", "majority"])


def resolved(kind: str, table: AnswerTable, aggregation: str = "consensus", seed: int = 0) -> Resolution:
    return resolve(kind, table, aggregation, table.labels, seed)


def values(resolution: Resolution) -> list[Any]:
    return list(resolution.targets.values())


# --- nominal ------------------------------------------------------------------------------------


def crowd_with_spammer_and_flipper(n_items: int) -> tuple[list[str], list[list[str]]]:
    """The truth, and answers of three people who are right 75 % of the time, a spammer and a flipper."""
    rng = np.random.default_rng(7)
    truth = rng.choice(["no", "yes"], n_items)
    flipped = np.where(truth == "yes", "no", "yes")
    honest = [np.where(rng.random(n_items) < 0.75, truth, flipped) for _ in range(3)]
    spammer = rng.choice(["no", "yes"], n_items)
    flipper = np.where(rng.random(n_items) < 0.95, flipped, truth)
    return truth.tolist(), np.column_stack([*honest, spammer, flipper]).tolist()


def test_consensus_beats_a_vote_when_one_spams_and_one_flips_the_labels() -> None:
    truth, answers = crowd_with_spammer_and_flipper(400)
    table = table_of(kinds.NOMINAL, answers)
    right = {
        aggregation: np.mean([a == b for a, b in zip(values(found), truth, strict=True)])
        for aggregation in ("consensus", "majority")
        if (found := resolved(kinds.NOMINAL, table, aggregation))
    }
    assert right["consensus"] > 0.9
    assert right["majority"] < 0.7


@BOTH
def test_a_single_annotator_gets_his_own_labels(aggregation: str) -> None:
    answers = [["a"], ["b"], ["a"], ["c"], ["a"]]
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, answers), aggregation)
    assert values(found) == ["a", "b", "a", "c", "a"]
    assert (found.n_disagreement, found.n_ties) == (0, 0)


@BOTH
def test_one_annotator_per_item_is_believed(aggregation: str) -> None:
    rng = np.random.default_rng(3)
    answers: list[list[str | None]] = [[None, None, None] for _ in range(60)]
    for number, row in enumerate(answers):
        # Each of the three uses other labels, which the model alone would hold against him.
        row[number % 3] = str(rng.choice(list("abc"[: number % 3 + 1])))
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, answers), aggregation)
    assert values(found) == [next(filter(None, row)) for row in answers]


def test_an_annotator_who_shares_no_item_keeps_his_labels_beside_those_who_do() -> None:
    shared = [["yes", "yes", None], ["no", "no", None], ["yes", "no", None], ["yes", "yes", None]] * 5
    alone = [[None, None, "no"]] * 19 + [[None, None, "yes"]]
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, shared + alone))
    assert values(found)[20:] == ["no"] * 19 + ["yes"]


def test_one_label_for_everything_is_no_tie() -> None:
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, [["a", "a"], ["a"]]))
    assert (values(found), found.n_ties, found.n_disagreement) == (["a", "a"], 0, 0)


def test_a_vote_takes_the_label_with_most_votes() -> None:
    answers = [["a", "b", "b"], ["c", "c", "a"]]
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, answers), "majority")
    assert (values(found), found.n_ties, found.n_disagreement) == (["b", "c"], 0, 2)


# --- ties ---------------------------------------------------------------------------------------


@BOTH
def test_two_who_always_disagree_are_tied_and_the_hash_favours_no_label(aggregation: str) -> None:
    answers = [["a", "b"], ["b", "a"]] * 200
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, answers), aggregation)
    assert found.n_ties == found.n_disagreement == len(found.tied) == 400
    assert 160 < Counter(values(found))["a"] < 240


@pytest.mark.parametrize("kind", [kinds.NOMINAL, kinds.ORDINAL])
def test_a_tie_is_only_among_the_labels_that_share_the_first_place(kind: str) -> None:
    table = table_of(kind, [["1", "1", "3", "3", "2"]] * 60, labels=SCALE)
    assert set(values(resolved(kind, table, "majority"))) == {"1", "3"}


def test_ties_are_broken_the_same_way_among_other_items_and_otherwise_with_another_seed() -> None:
    few, many = ([["a", "b"], ["b", "a"]] * n for n in (10, 20))
    first = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, few), "majority").targets
    more = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, many), "majority").targets
    other = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, few), "majority", seed=1).targets
    assert first == {item: more[item] for item in first}
    assert first != other


@pytest.mark.parametrize("kind", [kinds.NOMINAL, kinds.MULTILABEL])
def test_a_tie_is_broken_the_same_way_when_labels_are_added_or_change_places(kind: str) -> None:
    pair: list[Any] = ["b", "c"] if kind == kinds.NOMINAL else [("b", "c"), ("c",)]
    other: Any = "a" if kind == kinds.NOMINAL else ("a",)
    orders = ((), ["c", "b"], ["a", "b", "c"], ["c", "a", "b"])
    first, *others = (
        resolved(kind, table_of(kind, [pair] * 60 + [[other]] * ("a" in order), order), "majority").targets
        for order in orders
    )
    assert len(set(map(str, first.values()))) == 2
    assert all({item: targets[item] for item in first} == first for targets in others)


def test_a_median_between_two_labels_falls_on_the_same_one_when_the_scale_is_turned_round() -> None:
    grades = [["low", "high"]] * 60
    one, other = (
        resolved(kinds.ORDINAL, table_of(kinds.ORDINAL, grades, labels)).targets
        for labels in (["low", "high"], ["highest", "high", "low"])
    )
    assert one == other


def test_the_lot_of_a_tie_does_not_depend_on_the_split() -> None:
    found = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, [["a", "b"]] * 1000), "majority")
    splits = assign(list(found.targets), 0, {"train": 0.5, "val": 0.5})
    both = Counter(zip(splits, values(found), strict=True))
    assert len(both) == 4
    assert min(both.values()) > 200


# --- multilabel ---------------------------------------------------------------------------------


@BOTH
def test_each_label_of_a_set_is_decided_by_itself(aggregation: str) -> None:
    # The fourth item's set was given by nobody as a whole.
    answers: list[list[Any]] = [
        [("price",), ("price",), ("price",)],
        [(), (), ()],
        [("service",), ("service",), ("service",)],
        [("price", "service"), ("price", "speed"), ("service", "speed")],
        [("speed",), ("speed",), ("speed",)],
    ]
    found = resolved(kinds.MULTILABEL, table_of(kinds.MULTILABEL, answers), aggregation)
    assert values(found) == [["price"], [], ["service"], ["price", "service", "speed"], ["speed"]]
    assert (found.n_disagreement, found.n_ties) == (1, 0)


def test_consensus_of_sets_also_sees_through_a_flipper() -> None:
    truth, answers = crowd_with_spammer_and_flipper(400)
    sets = [[("good",) if answer == "yes" else () for answer in row] for row in answers]
    table = table_of(kinds.MULTILABEL, sets)
    consensus, majority = (
        np.mean([(label == "yes") == (own == ["good"]) for label, own in zip(truth, found, strict=True)])
        for found in (values(resolved(kinds.MULTILABEL, table, name)) for name in ("consensus", "majority"))
    )
    assert consensus > 0.9 > 0.7 > majority


def test_nobody_ticked_anything_gives_empty_sets() -> None:
    found = resolved(kinds.MULTILABEL, table_of(kinds.MULTILABEL, [[(), ()], [()]]))
    assert (values(found), found.n_disagreement, found.n_ties) == ([[], []], 0, 0)


def test_tied_labels_of_one_item_draw_lots_of_their_own_and_the_item_counts_once() -> None:
    table = table_of(kinds.MULTILABEL, [[("a", "c"), ("b", "c")]] * 200, labels=["c", "a", "b"])
    found = resolved(kinds.MULTILABEL, table, "majority")
    assert found.n_ties == found.n_disagreement == 200
    assert set(map(tuple, values(found))) == {("c",), ("a", "c"), ("b", "c"), ("a", "b", "c")}


# --- ordinal and continuous ---------------------------------------------------------------------


def test_a_scale_takes_the_median_even_where_nobody_gave_it() -> None:
    answers = [["1", "4", "5"], ["1", "5"], ["2"]]
    found = resolved(kinds.ORDINAL, table_of(kinds.ORDINAL, answers, labels=SCALE))
    assert (values(found), found.n_disagreement, found.n_ties) == (["4", "3", "2"], 2, 0)


def test_a_median_between_two_labels_is_a_tie_between_its_neighbours() -> None:
    found = resolved(kinds.ORDINAL, table_of(kinds.ORDINAL, [["1", "4"]] * 100, labels=SCALE))
    assert found.n_ties == 100
    assert set(values(found)) == {"2", "3"}


def test_majority_on_a_scale_is_a_vote() -> None:
    table = table_of(kinds.ORDINAL, [["1", "1", "4", "5", "5", "5"]], labels=SCALE)
    assert values(resolved(kinds.ORDINAL, table, "majority")) == ["5"]


@BOTH
def test_numbers_take_the_plain_median(aggregation: str) -> None:
    table = table_of(kinds.CONTINUOUS, [[1.0, 9.0, 2.5], [10.0, 20.0], [1e308, 1.2e308], [7.0, 7.0]])
    found = resolved(kinds.CONTINUOUS, table, aggregation)
    assert values(found) == [2.5, 15.0, 1.1e308, 7.0]
    assert all(type(value) is float for value in values(found))
    assert (found.n_disagreement, found.n_ties) == (3, 0)


# --- other kinds --------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("kind", OTHERS)
def test_other_answers_need_more_identical_ones_than_the_runner_up(kind: str, aggregation: str) -> None:
    one, same, other = (
        [{"start": 0, "end": end, "label": "a"} for _ in range(2)] if kind == kinds.SPAN else f"line {end}"
        for end in (3, 3, 4)
    )
    answers = [[one, other, same], [one, other], [other], [one, same, other, other], [[], [], one]]
    found = resolved(kind, table_of(kind, answers), aggregation)
    assert found.targets == {"item-0": one, "item-2": other, "item-4": []}
    assert found.unresolved == ["item-1", "item-3"]
    assert (found.n_disagreement, found.n_ties) == (4, 0)


def test_answers_that_differ_only_in_the_order_of_keys_are_identical() -> None:
    spans = [[{"start": 0, "end": 2, "label": "x"}], [{"label": "x", "end": 2, "start": 0}]]
    found = resolved(kinds.SPAN, table_of(kinds.SPAN, [[*spans, []]]))
    assert values(found) == [spans[0]]


def test_many_distinct_texts_on_one_item_are_resolved() -> None:
    texts = [f"answer {number}" for number in range(20_000)]
    found = resolved(kinds.TEXT, table_of(kinds.TEXT, [texts]))
    assert (found.targets, len(found.unresolved)) == ({}, 1)


# --- all kinds ----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("kind", kinds.ALL)
def test_no_answers_give_nothing(kind: str, aggregation: str) -> None:
    found = resolved(kind, table_of(kind, []), aggregation)
    assert found == Resolution({}, 0)


@pytest.mark.parametrize(("kind", "aggregation"), [("colour", "majority"), (kinds.NOMINAL, "magic")])
def test_an_unknown_kind_or_aggregation_is_an_error(kind: str, aggregation: str) -> None:
    with pytest.raises(ValueError, match="no way to resolve"):
        resolve(kind, table_of(kinds.NOMINAL, [["a"]]), aggregation, ["a"], 0)


@pytest.mark.parametrize("kind", [kinds.NOMINAL, kinds.MULTILABEL, kinds.TEXT])
def test_long_work_stops_when_it_is_asked_to(kind: str) -> None:
    table = table_of(kind, [[("a",), ()]] if kind == kinds.MULTILABEL else [["a", "b"]])
    with pytest.raises(Cancelled):
        resolve(kind, table, "consensus", table.labels, 0, StopPoll(lambda: True).now)


def test_targets_are_plain_values_that_json_can_hold() -> None:
    nominal = resolved(kinds.NOMINAL, table_of(kinds.NOMINAL, [["a", "b"]]))
    sets = resolved(kinds.MULTILABEL, table_of(kinds.MULTILABEL, [[("a",), ("b",)]]))
    assert type(values(nominal)[0]) is str
    assert type(values(sets)[0]) is list
    assert (type(nominal.n_disagreement), type(sets.n_disagreement), type(sets.n_ties)) == (int, int, int)


@given(answers=st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=3, max_size=3), min_size=1))
def test_every_answered_item_gets_a_label_and_unanimous_items_get_theirs_by_a_vote(
    answers: list[list[str | None]],
) -> None:
    table = table_of(kinds.NOMINAL, answers)
    found = resolved(kinds.NOMINAL, table, "majority")
    for number, row in enumerate(answers):
        votes = Counter(label for label in row if label)
        label = found.targets.get(f"item-{number}")
        assert (label is None) if not votes else votes[label] == max(votes.values())
    assert found.n_disagreement == sum(len({*row} - {None}) > 1 for row in answers)
