"""The range of a numeric scheme, read from its options."""

from __future__ import annotations

from typing import Any

import pytest
from trainer_samples import opinions, rows_of

from potato_ray.trainers.base import SchemeSpec
from potato_ray.trainers.value_range import bounds_of, finite_number, value_range


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({"min_value": 0, "max_value": 10}, (0.0, 10.0)),
        ({"min": 1, "max": 7}, (1.0, 7.0)),
        ({"scale": {"min": -3, "max": 3, "step": 1}}, (-3.0, 3.0)),
        ({"min_value": "0", "max_value": " 2.5 "}, (0.0, 2.5)),
        ({"min_value": None, "min": 2, "max_value": "ten", "max": 8}, (2.0, 8.0)),
        ({"min_value": 3}, (3.0, None)),
        ({"min_value": 10, "max_value": 0}, (None, None)),
        ({"min_value": 4, "max_value": 4}, (None, None)),
        ({"min_value": True, "max_value": "inf", "scale": [1]}, (None, None)),
        ({"min_value": 10**400, "max_value": "nan"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_bounds_are_read_wherever_a_scheme_has_them(options: dict[str, Any], bounds: Any) -> None:
    assert bounds_of(options) == bounds


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (4.0, 5.0)),
        ({"min_value": 0}, (0.0, 5.0)),
        ({"min_value": 0, "max_value": 4.5}, (0.0, 4.5)),
        ({"min_value": 9}, (4.0, 5.0)),
    ],
)
def test_the_data_stand_in_for_bounds_that_are_not_told(
    options: dict[str, Any], expected: tuple[float, float]
) -> None:
    assert value_range(options, 4.0, 5.0) == expected


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), True, "1", None, [1]])
def test_what_is_no_finite_number_is_none(value: Any) -> None:
    assert finite_number(value) is None


def test_predictions_stay_inside_of_min_and_max(train: Any) -> None:
    texts, labels = opinions(60)
    scheme = SchemeSpec("s", "slider", "continuous", (), {"min": 0, "max": "1"})
    numbers = [3.0 if label == "good" else -2.0 for label in labels]
    fitted = train(scheme, rows_of(texts, numbers))
    assert {prediction.payload["value"] for prediction in fitted.of(texts)} == {0.0, 1.0}
