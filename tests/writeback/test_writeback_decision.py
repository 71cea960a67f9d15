"""The four checks in their order, as a pure function."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.registry.prelabels import Candidate
from potato_ray.writeback import WritebackSettings, beats_baseline, decide, shown_payload

SETTINGS = WritebackSettings(("sentiment",), 0.6)
GOOD = Candidate("a", "sentiment", {"label": "positive"}, 0.9)
FLAWS = [
    ("skipped_train_split", {"trained_on": True}),
    ("skipped_schema_not_enabled", {"schema_name": "tone"}),
    ("skipped_rejected", {"rejected": True}),
    ("skipped_low_confidence", {"confidence": 0.5}),
    ("skipped_empty", {"payload": {"label": ""}}),
    ("skipped_superseded", {"superseded": True}),
]


def test_a_prediction_without_a_flaw_is_shown():
    decision = decide(GOOD, SETTINGS)
    assert (decision.outcome, decision.shown) == ("written", {"label": "positive", "confidence": 0.9})


@given(st.sets(st.sampled_from(range(len(FLAWS))), min_size=1))
def test_the_first_check_that_fails_names_the_reason(flaws):
    changes = {}
    for number in flaws:
        changes.update(FLAWS[number][1])
    decision = decide(replace(GOOD, **changes), SETTINGS)
    assert (decision.outcome, decision.shown, decision.keep) == (FLAWS[min(flaws)][0], None, False)


def test_a_blocked_model_shows_nothing_and_leaves_the_items_alone():
    decision = decide(GOOD, SETTINGS, blocked=True)
    assert (decision.outcome, decision.shown, decision.keep) == ("skipped_gate", None, True)
    assert decide(replace(GOOD, rejected=True), SETTINGS, blocked=True).keep


def test_the_threshold_itself_is_enough():
    assert decide(replace(GOOD, confidence=0.6), SETTINGS).outcome == "written"


@pytest.mark.parametrize(("minimum", "outcome"), [(0.0, "written"), (0.01, "skipped_low_confidence")])
def test_a_prediction_without_a_confidence_needs_a_threshold_of_zero(minimum, outcome):
    number = Candidate("a", "sentiment", {"value": 48.0}, None)
    assert decide(number, replace(SETTINGS, min_confidence=minimum)).outcome == outcome


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"label": "ça va", "probabilities": {"ça va": 0.7}}, {"label": "ça va", "confidence": 0.7}),
        ({"labels": ["price", "service"]}, ["price", "service"]),
        ({"labels": ["price"]}, ["price"]),
        ({"value": 48.0}, 48),
        ({"value": 48.5}, 48.5),
        ({"value": 0.0}, 0),
        ({"text": "a line"}, "a line"),
        ({"spans": [{"start": 0, "end": 4, "label": "praise"}]}, [{"start": 0, "end": 4, "label": "praise"}]),
        ({"objects": [{"type": "bbox"}]}, [{"type": "bbox"}]),
        ({"order": ["price", "speed"]}, ["price", "speed"]),
    ],
)
def test_every_kind_is_shown_as_the_annotators_own_answer(payload, shown):
    assert shown_payload(payload, 0.7) == shown


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"label": ""},
        {"label": None},
        {"labels": []},
        {"value": None},
        {"text": "  \n"},
        {"spans": []},
        {"objects": []},
        {"order": []},
        {"something": "else"},
    ],
)
def test_an_empty_prediction_is_not_shown(payload):
    assert shown_payload(payload, 1.0) is None


@pytest.mark.parametrize(
    ("headline", "beats"),
    [
        (None, None),
        ({}, None),
        ({"value": 0.8}, None),
        ({"value": None, "baseline": 0.5}, None),
        ({"value": 0.8, "baseline": 0.5}, True),
        ({"value": 0.5, "baseline": 0.5}, False),
        ({"value": 1.0, "baseline": 0.5, "interval_note": "fewer than 10 items"}, None),
        ({"value": 1.0, "baseline": 0.5, "interval_note": "all agree", "n_items": 29}, None),
        ({"value": 1.0, "baseline": 0.5, "interval_note": "all agree", "n_items": 30}, True),
        ({"value": 0.8, "baseline": 0.5, "interval_note": ""}, True),
        ({"value": 3.0, "baseline": 4.0, "lower_is_better": True}, True),
        ({"value": 4.0, "baseline": 3.0, "lower_is_better": True}, False),
    ],
)
def test_a_model_must_be_better_than_its_baseline(headline, beats):
    assert beats_baseline(headline) is beats


def test_the_settings_come_from_the_configuration():
    section = SimpleNamespace(
        schemas=["tone"], min_confidence=0.5, field="predictions", gate="block", other=1
    )
    assert WritebackSettings.from_config(section) == WritebackSettings(("tone",), 0.5, "predictions", "block")


def test_the_settings_know_the_schemes_that_potato_leaves_empty():
    section = SimpleNamespace(schemas=["trust"], min_confidence=0, field="predictions", gate="off")
    schemes = [{"name": "tone", "annotation_type": "radio"}, {"name": "trust", "annotation_type": "number"}]
    assert WritebackSettings.from_config(section, schemes).unseen == ("trust",)
