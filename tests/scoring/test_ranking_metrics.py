from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from potato_ray.scoring import ranking

LABELS = ["price", "speed", "comfort", "looks"]
SCHEME = {"name": "order", "kind": "ranking", "annotation_type": "ranking", "labels": LABELS, "options": {}}
BEST_WORST = {**SCHEME, "annotation_type": "bws"}

orders = st.permutations(LABELS)
partial_orders = st.lists(st.sampled_from(LABELS), unique=True, min_size=2)


def tau_by_hand(human, said):
    """Tau-b from its definition: concordant less discordant pairs over the untied ones of either side."""
    options = sorted({*human, *said})
    pairs = [(one, other) for number, one in enumerate(options) for other in options[number + 1 :]]

    def side(order, one, other):
        place = [order.index(option) if option in order else len(order) for option in (one, other)]
        return (place[0] > place[1]) - (place[0] < place[1])

    left = [side(human, *pair) for pair in pairs]
    right = [side(said, *pair) for pair in pairs]
    untied = sum(map(abs, left)) * sum(map(abs, right))
    return sum(a * b for a, b in zip(left, right, strict=True)) / math.sqrt(untied)


@given(st.lists(st.tuples(orders, orders), min_size=1, max_size=6))
def test_kendall_tau_of_full_orders_is_scipys(items):
    truth, said = zip(*items, strict=True)
    taus = [
        kendalltau(
            [human.index(label) for label in LABELS], [order.index(label) for label in LABELS]
        ).statistic
        for human, order in items
    ]
    expected = sum(taus) / len(taus)
    assert ranking.metrics(truth, said, SCHEME)["kendall_tau"] == pytest.approx(expected, abs=1e-9)


@given(st.tuples(partial_orders, partial_orders))
def test_options_that_a_side_leaves_out_come_last_there(item):
    human, said = item
    found = ranking.metrics([human], [said], SCHEME)["kendall_tau"]
    assert found == pytest.approx(tau_by_hand(human, said), abs=1e-9)


def test_the_same_order_is_1_and_the_reverse_is_minus_1():
    assert ranking.metrics([LABELS], [LABELS], SCHEME) == {"kendall_tau": pytest.approx(1.0)}
    assert ranking.metrics([LABELS], [LABELS[::-1]], SCHEME) == {"kendall_tau": pytest.approx(-1.0)}


@pytest.mark.parametrize("unreadable", [None, "price,speed", [], ["price", "price"], [1, 2], 7, {"a": 1}])
def test_what_is_no_order_is_the_worst(unreadable):
    assert ranking.metrics([LABELS], [unreadable], SCHEME) == {"kendall_tau": -1.0}


def test_a_missing_prediction_pulls_the_mean_down():
    found = ranking.metrics([LABELS, LABELS], [LABELS, None], SCHEME)
    assert found["kendall_tau"] == pytest.approx(0.0)


def test_an_item_with_one_option_has_no_order_to_compare():
    assert ranking.metrics([["price"]], [["price"]], SCHEME) == {}
    assert ranking.metrics([["price"], LABELS], [None, LABELS], SCHEME)["kendall_tau"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("said", "tau"),
    [
        (["price", "speed", "comfort", "looks"], 1),
        (["looks", "speed", "comfort", "price"], -1),
        (["price", "looks"], 1),
        (["price"], 1),
        (["speed"], -1),
    ],
)
def test_of_best_and_worst_only_these_two_are_compared(said, tau):
    found = ranking.metrics([["price", "looks"]], [said], BEST_WORST)
    assert found["kendall_tau"] == pytest.approx(tau)


words = st.sampled_from([*LABELS, "zzz"]) | st.integers() | st.none()


@given(st.lists(st.tuples(st.lists(st.sampled_from(LABELS), unique=True),
                          st.none() | st.lists(words)), max_size=5))  # fmt: skip
def test_malformed_predictions_never_raise_and_give_no_nan(items):
    truth, said = [human for human, _ in items], [order for _, order in items]
    for scheme in (SCHEME, BEST_WORST):
        found = ranking.metrics(truth, said, scheme)
        assert all(-1 - 1e-9 <= value <= 1 + 1e-9 for value in found.values())
        sums = ranking.per_item(truth, said, scheme)
        assert sums.shape == (len(items), 2)
        assert ranking.main_of(sums.sum(0)) == found.get(ranking.MAIN, 0.0)


def test_the_baseline_is_the_order_of_mean_ranks():
    train = [["speed", "price", "comfort", "looks"], ["speed", "comfort", "price", "looks"]]
    assert ranking.baseline(train, SCHEME) == ["speed", "price", "comfort", "looks"]


def test_the_baseline_puts_options_that_nobody_ranked_in_the_middle():
    assert ranking.baseline([["looks", "price"]], BEST_WORST) == ["looks", "speed", "comfort", "price"]
    assert ranking.baseline([], SCHEME) == LABELS
