"""Our model of Dawid and Skene against crowd-kit's, recorded and, where it is installed, live."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest
from crowdkit_fixture import CROWDS, RECORDED, answers_of, crowdkit_posteriors
from parts import missing

from potato_ray.project import dawid_skene

CASES = json.loads(RECORDED.read_text(encoding="utf-8"))


def posteriors_of(answers: list[list[int]]) -> Any:
    items, annotators, codes = np.array(answers, dtype=np.int32).T
    used, codes = np.unique(codes, return_inverse=True)
    fitted = dawid_skene.fit(
        items,
        annotators,
        codes,
        n_items=int(items.max()) + 1,
        n_labels=len(used),
    )
    return fitted.posteriors


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_posteriors_equal_those_recorded_from_crowdkit(case: dict[str, Any]) -> None:
    np.testing.assert_allclose(posteriors_of(case["answers"]), case["posteriors"], rtol=0, atol=1e-6)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")  # crowd-kit's own, of pandas
@pytest.mark.parametrize("name", CROWDS)
def test_posteriors_equal_those_of_crowdkit_itself(name: str) -> None:
    if importlib.util.find_spec("crowdkit") is None:
        missing("crowd-kit is not installed (pip install 'potato-ray[peer]'); the recorded cases still ran")
    answers = answers_of(CROWDS[name], seed=100)
    expected = crowdkit_posteriors(answers)
    np.testing.assert_allclose(posteriors_of(answers), expected, rtol=0, atol=1e-6)


def test_the_recorded_answers_are_those_that_the_script_would_make() -> None:
    made = [answers_of(crowd, seed) for seed, crowd in enumerate(CROWDS.values())]
    assert [case["answers"] for case in CASES] == made
