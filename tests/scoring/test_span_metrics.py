from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.scoring import spans

SCHEME = {"name": "evidence", "kind": "span", "annotation_type": "span", "labels": ["x", "y"], "options": {}}


def span(start, end, label="x"):
    return {"start": start, "end": end, "label": label}


some_spans = st.lists(
    st.builds(lambda start, length, label: span(start, start + length, label),
              st.integers(0, 12), st.integers(1, 6), st.sampled_from("xy")),
    max_size=4,
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["start", "end", "label", "z"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def f1(hits, n_said, n_human):
    return 2 * hits / (n_said + n_human) if n_said + n_human else 1.0


def as_set(found):
    return {(each["start"], each["end"], each["label"]) for each in found}


def characters(found):
    return {(at, each["label"]) for each in found for at in range(each["start"], each["end"])}


def credit(found, others):
    covered = characters(others)
    return sum(len(characters([each]) & covered) / (each["end"] - each["start"]) for each in unique(found))


def unique(found):
    return [span(*each) for each in as_set(found)]


pairs_of_items = st.lists(st.tuples(some_spans, some_spans), min_size=1, max_size=5)


@given(pairs_of_items)
def test_f1_is_that_of_sets_of_typed_spans(items):
    truth, said = zip(*items, strict=True)
    hits = sum(len(as_set(a) & as_set(b)) for a, b in items)
    expected = f1(hits, sum(len(as_set(b)) for b in said), sum(len(as_set(a)) for a in truth))
    assert spans.metrics(truth, said, SCHEME)["f1"] == pytest.approx(expected, abs=1e-9)


@given(pairs_of_items)
def test_token_f1_is_that_of_labelled_characters(items):
    truth, said = zip(*items, strict=True)
    hits = sum(len(characters(a) & characters(b)) for a, b in items)
    expected = f1(hits, sum(len(characters(b)) for b in said), sum(len(characters(a)) for a in truth))
    assert spans.metrics(truth, said, SCHEME)["token_f1"] == pytest.approx(expected, abs=1e-9)


@given(pairs_of_items)
def test_partial_f1_gives_each_span_the_share_that_is_covered(items):
    n_human = sum(len(as_set(a)) for a, _ in items)
    n_said = sum(len(as_set(b)) for _, b in items)
    recall = sum(credit(a, b) for a, b in items) / max(n_human, 1)
    precision = sum(credit(b, a) for a, b in items) / max(n_said, 1)
    both = precision + recall
    expected = 2 * precision * recall / both if both else float(n_human == n_said == 0)
    truth, said = zip(*items, strict=True)
    assert spans.metrics(truth, said, SCHEME)["partial_f1"] == pytest.approx(expected, abs=1e-9)


def test_a_worked_example():
    truth = [[span(0, 10), span(20, 30, "y")], [span(0, 4)]]
    said = [[span(0, 10), span(25, 35, "y")], [span(0, 4, "y")]]
    found = spans.metrics(truth, said, SCHEME)
    assert found["f1"] == pytest.approx(1 / 3)
    assert found["token_f1"] == pytest.approx(15 / 24)
    assert found["partial_f1"] == pytest.approx(1.5 / 3)


def test_a_missing_prediction_misses_all_spans_of_its_item():
    found = spans.metrics([[span(0, 5)], [span(0, 5)]], [[span(0, 5)], None], SCHEME)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["partial_f1"] == pytest.approx(2 / 3)


def test_a_missing_prediction_is_wrong_also_where_there_is_no_span():
    truth, said = [[], [span(0, 5)]], [None, [span(0, 5)]]
    assert spans.metrics(truth, said, SCHEME)["f1"] == pytest.approx(2 / 3)
    assert spans.metrics([[]], [None], SCHEME) == {"f1": 0.0, "token_f1": 0.0, "partial_f1": 0.0}


def test_finding_nothing_where_nothing_is_is_right():
    assert set(spans.metrics([[], []], [[], []], SCHEME).values()) == {1.0}


def test_a_span_said_twice_counts_once():
    assert spans.metrics([[span(0, 5)]], [[span(0, 5), span(0, 5)]], SCHEME)["f1"] == 1.0


def test_spans_that_overlap_share_their_characters_once():
    found = spans.metrics([[span(0, 10), span(5, 15)]], [[span(0, 15)]], SCHEME)
    assert found["token_f1"] == 1.0
    assert found["partial_f1"] == 1.0
    assert found["f1"] == 0.0


@pytest.mark.parametrize(
    "unreadable",
    [{}, "x", None, span(5, 2), span(-1, 2), span("0", 5), span(0, 5, None), span(0, 2**40), [0, 5, "x"]],
)
def test_a_span_that_cannot_be_read_is_a_false_one(unreadable):
    found = spans.metrics([[span(0, 5)]], [[span(0, 5), unreadable]], SCHEME)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["partial_f1"] == pytest.approx(2 / 3)


def test_an_empty_span_is_found_by_itself_only():
    assert set(spans.metrics([[span(3, 3)]], [[span(3, 3)]], SCHEME).values()) == {1.0}
    assert spans.metrics([[span(3, 3)]], [[span(0, 5)]], SCHEME)["partial_f1"] == 0.0


@given(st.lists(st.tuples(some_spans, anything), min_size=1, max_size=4))
def test_malformed_predictions_never_raise_and_give_no_nan(items):
    truth, said = zip(*items, strict=True)
    found = spans.metrics(truth, said, SCHEME)
    assert tuple(found) == spans.METRICS
    assert all(0 <= value <= 1 for value in found.values())


@given(pairs_of_items)
def test_the_sums_give_the_main_metric(items):
    truth, said = zip(*items, strict=True)
    sums = spans.per_item(truth, said, SCHEME)
    assert sums.shape == (len(items), 3)
    assert spans.main_of(sums.sum(0)) == spans.metrics(truth, said, SCHEME)[spans.MAIN]
    stacked = np.stack([sums.sum(0), 2 * sums.sum(0)])
    assert spans.main_of(stacked).tolist() == [spans.main_of(sums.sum(0))] * 2


def test_without_items_there_is_no_metric():
    assert spans.metrics([], [], SCHEME) == {}
    assert spans.per_item([], [], SCHEME).shape == (0, 3)


def test_the_baseline_finds_nothing():
    assert spans.baseline([[span(0, 5)]], SCHEME) == []
    assert spans.metrics([[span(0, 5)]], [[]], SCHEME)["f1"] == 0.0
