from __future__ import annotations

import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.scoring import text

SCHEME = {"name": "summary", "kind": "text", "annotation_type": "text", "labels": [], "options": {}}

sentences = st.lists(st.sampled_from(["the", "The", "cat", "sat", "CAT", "42"]), max_size=6).map(" ".join)


def squad_f1(human, said):
    wanted, given_ = human.lower().split(), said.lower().split()
    if not wanted or not given_:
        return float(wanted == given_)
    shared = sum((Counter(wanted) & Counter(given_)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(given_), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
def test_token_f1_is_the_mean_f1_of_bags_of_words(items):
    truth, said = zip(*items, strict=True)
    expected = sum(squad_f1(human, answer) for human, answer in items) / len(items)
    assert text.metrics(truth, said, SCHEME)["token_f1"] == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
def test_exact_match_is_the_share_of_equal_texts(items):
    truth, said = zip(*items, strict=True)
    expected = sum(human == answer for human, answer in items) / len(items)
    assert text.metrics(truth, said, SCHEME)["exact_match"] == pytest.approx(expected, abs=1e-9)


def test_a_worked_example():
    found = text.metrics(["the cat sat", "yes"], ["A cat, the CAT!", " yes\n"], SCHEME)
    assert found["token_f1"] == pytest.approx((4 / 7 + 1) / 2)
    assert found["exact_match"] == 0.5


@pytest.mark.parametrize(
    ("human", "said", "token_f1", "exact"),
    [
        ("", "", 1, 1),
        ("", "word", 0, 0),
        ("word", "", 0, 0),
        ("Straße", "STRASSE", 1, 0),
        ("caf\u00e9", "cafe\u0301", 1, 1),
        ("good", "good.", 1, 0),
        ("👍", "👎", 0, 0),
        ("?!", "?!", 1, 1),
        ("很好吃", "很好看", 2 / 3, 0),
        ("とても good", "とても bad", 3 / 4, 0),
    ],
)
def test_what_counts_as_the_same(human, said, token_f1, exact):
    found = text.metrics([human], [said], SCHEME)
    assert found["token_f1"] == pytest.approx(token_f1)
    assert found["exact_match"] == exact


@pytest.mark.parametrize("unreadable", [None, 3, ["word"], {"text": "word"}, True])
def test_what_is_no_text_is_wrong(unreadable):
    assert text.metrics(["word", "word"], ["word", unreadable], SCHEME) == {
        "token_f1": 0.5,
        "exact_match": 0.5,
    }


def test_a_missing_prediction_is_wrong_also_where_the_text_is_empty():
    assert text.metrics([""], [None], SCHEME) == {"token_f1": 0.0, "exact_match": 0.0}


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8) | st.none()), min_size=1, max_size=4))
def test_any_characters_give_scores_between_0_and_1(items):
    truth, said = zip(*items, strict=True)
    found = text.metrics(truth, said, SCHEME)
    assert tuple(found) == text.METRICS
    assert all(0 <= value <= 1 for value in found.values())


@given(st.text(max_size=20))
def test_a_text_agrees_with_itself(any_text):
    assert set(text.metrics([any_text], [any_text], SCHEME).values()) == {1.0}


@given(st.text(alphabet=string.ascii_letters + " .,;", max_size=20), st.text(max_size=20))
def test_token_f1_is_symmetric(one, other):
    assert text.token_f1(one, other) == text.token_f1(other, one)


@given(st.lists(st.tuples(sentences, sentences | st.none()), min_size=1, max_size=6))
def test_the_sums_give_the_main_metric(items):
    truth, said = zip(*items, strict=True)
    sums = text.per_item(truth, said, SCHEME)
    assert sums.shape == (len(items), 2)
    assert text.main_of(sums.sum(0)) == text.metrics(truth, said, SCHEME)[text.MAIN]


def test_without_items_there_is_no_metric():
    assert text.metrics([], [], SCHEME) == {}
    assert text.per_item([], [], SCHEME).shape == (0, 2)


def test_the_baseline_is_the_most_frequent_text_of_train():
    assert text.baseline(["b", "a", "b"], SCHEME) == "b"
    assert text.baseline(["b", "a"], SCHEME) == "a"
    assert text.baseline([], SCHEME) == ""
