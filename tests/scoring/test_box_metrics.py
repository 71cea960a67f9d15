from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.scoring import boxes

SCHEME = {"name": "objects", "kind": "geometry", "annotation_type": "image_annotation", "labels": ["cat"]}
SHAPES = Path(__file__).parents[1] / "projects" / "shapes" / "annotation_output"


def box(x, y, width, height, label="cat"):
    coordinates = {"x": x, "y": y, "width": width, "height": height}
    return {"type": "bbox", "label": label, "coordinates": coordinates}


def polygon(*points, label="cat"):
    return {"type": "polygon", "label": label, "coordinates": [{"x": x, "y": y} for x, y in points]}


def point(x, y, label="cat"):
    return {"type": "landmark", "label": label, "coordinates": {"x": x, "y": y}}


def iou_of_boxes(one, other):
    a, b = one["coordinates"], other["coordinates"]
    wide = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    high = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    shared = max(wide, 0) * max(high, 0)
    return shared / (a["width"] * a["height"] + b["width"] * b["height"] - shared)


def best_pairing(human, said):
    """The IoUs of the best pairing, by trying all of them."""
    if len(said) < len(human):
        human, said = said, human
    best = []
    for chosen in itertools.permutations(said, len(human)):
        ious = [
            iou
            for one, other in zip(human, chosen, strict=True)
            if one["label"] == other["label"] and (iou := iou_of_boxes(one, other)) >= 0.5
        ]
        best = max(best, ious, key=sum)
    return best


near = st.floats(0, 0.3)
some_boxes = st.lists(
    st.builds(
        box, near, near, st.floats(0.2, 0.6), st.floats(0.2, 0.6), label=st.sampled_from(["cat", "dog"])
    ),
    max_size=4,
)
items_of_boxes = st.lists(st.tuples(some_boxes, some_boxes), min_size=1, max_size=3)


@given(items_of_boxes)
def test_boxes_are_paired_as_the_best_of_all_pairings(items):
    truth, said = zip(*items, strict=True)
    ious = [iou for human, answer in items for iou in best_pairing(human, answer)]
    n_human, n_said = sum(map(len, truth)), sum(map(len, said))
    expected = {"f1": 2 * len(ious) / (n_human + n_said) if n_human + n_said else 1.0}
    expected |= {"precision": len(ious) / n_said} if n_said else {}
    expected |= {"recall": len(ious) / n_human} if n_human else {}
    expected |= {"mean_iou": sum(ious) / len(ious)} if ious else {}
    assert boxes.metrics(truth, said, SCHEME) == pytest.approx(expected, abs=1e-9)


def test_a_worked_example():
    truth = [[box(0, 0, 0.4, 0.4), box(0.5, 0.5, 0.2, 0.2)], [box(0, 0, 1, 1, label="dog")]]
    said = [[box(0, 0, 0.4, 0.3), box(0.9, 0.9, 0.1, 0.1), box(0, 0, 0.1, 0.1)], [box(0, 0, 1, 1)]]
    found = boxes.metrics(truth, said, SCHEME)
    assert found == pytest.approx({"f1": 2 / 7, "precision": 1 / 4, "recall": 1 / 3, "mean_iou": 0.75})


def test_one_human_box_is_found_only_once():
    found = boxes.metrics([[box(0, 0, 0.4, 0.4)]], [[box(0, 0, 0.4, 0.4), box(0, 0, 0.4, 0.39)]], SCHEME)
    assert (found["precision"], found["recall"], found["mean_iou"]) == (0.5, 1.0, 1.0)


@pytest.mark.parametrize(("width", "hit"), [(0.1, 1.0), (0.0999, 0.0)])
def test_an_overlap_of_exactly_a_half_is_enough(width, hit):
    truth, said = [[box(0.7, 0.1, 0.2, 0.3)]], [[box(0.7, 0.1, width, 0.3)]]
    assert boxes.metrics(truth, said, SCHEME)["f1"] == hit


def test_a_box_drawn_from_its_other_corner_is_the_same_box():
    found = boxes.metrics([[box(0.1, 0.1, 0.3, 0.3)]], [[box(0.4, 0.4, -0.3, -0.3)]], SCHEME)
    assert found["mean_iou"] == pytest.approx(1.0)


def test_a_predicted_box_matches_a_drawn_outline():
    outline = polygon((0, 0), (0.4, 0), (0.4, 0.4), (0.2, 0.6), (0, 0.4))
    found = boxes.metrics([[outline]], [[box(0, 0, 0.4, 0.5)]], SCHEME)
    shared = 0.16 + 0.03
    assert found["mean_iou"] == pytest.approx(shared / (0.2 + 0.2 - shared))


@pytest.mark.parametrize(("x", "f1"), [(0.5, 1.0), (0.535, 1.0), (0.536, 0.0)])
def test_a_point_matches_within_a_fortieth_of_the_diagonal(x, f1):
    found = boxes.metrics([[point(0.5, 0.5)]], [[point(x, 0.5)]], SCHEME)
    assert found["f1"] == f1
    assert "mean_iou" not in found


def test_points_are_paired_with_the_nearest():
    truth, said = [[point(0.50, 0.5), point(0.53, 0.5)]], [[point(0.56, 0.5), point(0.53, 0.5)]]
    assert boxes.metrics(truth, said, SCHEME)["f1"] == 1.0


def test_a_point_and_a_box_never_match():
    assert boxes.metrics([[point(0.5, 0.5)]], [[box(0.5, 0.5, 0.01, 0.01)]], SCHEME)["f1"] == 0.0


def test_a_missing_prediction_misses_all_shapes_of_its_item():
    truth = [[box(0, 0, 1, 1)], [box(0, 0, 1, 1)]]
    found = boxes.metrics(truth, [[box(0, 0, 1, 1)], None], SCHEME)
    assert found == pytest.approx({"f1": 2 / 3, "precision": 1.0, "recall": 0.5, "mean_iou": 1.0})


def test_a_missing_prediction_is_wrong_also_where_there_is_no_shape():
    assert boxes.metrics([[]], [None], SCHEME)["f1"] == 0.0
    assert boxes.metrics([[]], [[]], SCHEME) == {"f1": 1.0}


@pytest.mark.parametrize(
    "unreadable",
    [
        None,
        "box",
        {},
        box(0, 0, float("nan"), 1),
        box(0, 0, 10**400, 1),
        box(0, 0, "1", 1),
        box(0, 0, 1, 1, label=None),
        polygon((0, 0), (1, 1)),
        polygon((0, 0), (1, 1), (None, 0)),
        {"type": "polygon", "label": "cat", "coordinates": [1, 2, 3]},
        {"type": "ellipse", "label": "cat", "coordinates": {"cx": 0.5, "cy": 0.5, "r": 0.5}},
    ],
)
def test_a_shape_that_cannot_be_read_is_a_false_one(unreadable):
    found = boxes.metrics([[box(0, 0, 1, 1)]], [[box(0, 0, 1, 1), unreadable]], SCHEME)
    assert (found["precision"], found["recall"]) == (0.5, 1.0)


def answers_of(annotator):
    state = json.loads((SHAPES / annotator / "user_state.json").read_text(encoding="utf-8"))
    entries = itertools.chain.from_iterable(state["instance_id_to_label_to_value"].values())
    return [json.loads(value) for spec, value in entries if spec["name"] == "_data"]


def test_what_people_drew_agrees_with_itself():
    drawn = answers_of("annotator_a")
    assert {shape["type"] for shape in itertools.chain(*drawn)} == {"bbox", "polygon", "landmark"}
    assert set(boxes.metrics(drawn, drawn, SCHEME).values()) == {1.0}


def test_shapes_without_an_area_and_of_other_forms_match_themselves():
    odd = [box(0.1, 0.1, 0, 0.3), polygon((0, 0), (1, 1), (0.5, 0.5))]
    odd.append({"type": "ellipse", "label": "cat", "coordinates": {"cx": 0.5, "r": 0.5}})
    assert boxes.metrics([odd], [odd[::-1]], SCHEME) == {"f1": 1.0, "precision": 1.0, "recall": 1.0}


numbers = st.floats() | st.integers() | st.none() | st.sampled_from([0, 0.5, 1.0, True])
places = st.fixed_dictionaries({"x": numbers, "y": numbers}, optional={"width": numbers, "height": numbers})
odd_shapes = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["bbox", "polygon", "landmark", None]),
        "label": st.sampled_from(["cat", "dog", None, 3]),
        "coordinates": places | st.lists(places | numbers, max_size=5) | numbers,
    }
)
odd_answers = st.none() | st.lists(odd_shapes | numbers, max_size=3) | st.text(max_size=3) | numbers


@given(st.lists(st.tuples(some_boxes, odd_answers), min_size=1, max_size=3))
def test_malformed_predictions_never_raise_and_give_no_nan(items):
    truth, said = zip(*items, strict=True)
    found = boxes.metrics(truth, said, SCHEME)
    assert set(found) <= set(boxes.METRICS)
    assert all(0 <= value <= 1 for value in found.values())


@given(items_of_boxes)
def test_the_sums_give_the_main_metric(items):
    truth, said = zip(*items, strict=True)
    sums = boxes.per_item(truth, said, SCHEME)
    assert sums.shape == (len(items), 3)
    assert boxes.main_of(sums.sum(0)) == boxes.metrics(truth, said, SCHEME)[boxes.MAIN]
    assert boxes.main_of(np.stack([sums.sum(0)] * 2)).shape == (2,)


def test_without_items_there_is_no_metric():
    assert boxes.metrics([], [], SCHEME) == {}
    assert boxes.per_item([], [], SCHEME).shape == (0, 3)


def test_the_baseline_finds_nothing():
    assert boxes.baseline([[box(0, 0, 1, 1)]], SCHEME) == []
    assert boxes.metrics([[box(0, 0, 1, 1)]], [[]], SCHEME) == {"f1": 0.0, "recall": 0.0}
