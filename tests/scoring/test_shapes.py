from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, HalfspaceIntersection

from potato_ray.scoring import shapes


def outline(points):
    coordinates = [{"x": float(x), "y": float(y)} for x, y in points]
    return shapes.read({"type": "polygon", "label": "a", "coordinates": coordinates})


def box(x, y, width, height):
    coordinates = {"x": x, "y": y, "width": width, "height": height}
    return shapes.read({"type": "bbox", "label": "a", "coordinates": coordinates})


def iou(one, other):
    return float(shapes.ious([one], [other], 0.01)[0, 0])


def convex(seed):
    points = np.random.default_rng(seed).random((12, 2))
    return points[ConvexHull(points).vertices]


def shared_by_half_planes(one, other):
    """The area that two convex outlines share, by scipy; both hold the picture's middle."""
    planes = np.concatenate([ConvexHull(one).equations, ConvexHull(other).equations])
    return ConvexHull(HalfspaceIntersection(planes, np.array([0.5, 0.5])).intersections).volume


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_area_that_convex_outlines_share_is_scipys(seed, other_seed):
    around = np.array([[0.45, 0.45], [0.55, 0.45], [0.5, 0.55]])
    one, other = (
        points[ConvexHull(points).vertices]
        for points in (np.concatenate([convex(each), around]) for each in (seed, other_seed))
    )
    shared = shapes.shared_area([one, other])
    assert shared == pytest.approx(shared_by_half_planes(one, other), abs=1e-9)


@given(st.integers(0, 10**6))
def test_the_area_of_an_outline_is_that_of_the_shoelace_formula(seed):
    rng = np.random.default_rng(seed)
    turns = np.linspace(0, 2 * np.pi, 9)[:-1]
    star = 0.5 + rng.uniform(0.1, 0.5, 8)[:, None] * np.column_stack([np.cos(turns), np.sin(turns)])
    x, y = star.T
    shoelace = abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    assert outline(star).area == pytest.approx(shoelace, abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.2, 1), st.floats(0.2, 1))
def test_a_box_and_its_outline_are_the_same(x, y, width, height):
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
    assert iou(box(x, y, width, height), outline(corners)) == pytest.approx(1.0, abs=1e-9)


def test_an_outline_that_crosses_itself_encloses_what_the_even_odd_rule_says():
    bow_tie = outline([(0, 0), (1, 1), (1, 0), (0, 1)])
    assert bow_tie.area == pytest.approx(0.5)
    assert iou(bow_tie, box(0, 0, 1, 1)) == pytest.approx(0.5)


def test_an_outline_that_ends_where_it_began_is_the_same():
    triangle = [(0, 0), (1, 0), (0, 1)]
    assert outline([*triangle, (0, 0)]).area == pytest.approx(0.5)
    assert iou(outline([*triangle, (0, 0)]), outline(triangle[::-1])) == pytest.approx(1.0)


def test_an_l_shape_does_not_share_what_lies_in_its_notch():
    l_shape = outline([(0, 0), (1, 0), (1, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)])
    assert l_shape.area == pytest.approx(0.75)
    assert iou(l_shape, box(0.5, 0.5, 0.5, 0.5)) == 0.0
    assert iou(l_shape, box(0, 0, 1, 1)) == pytest.approx(0.75)


def test_an_outline_of_very_many_corners_is_thinned():
    turns = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    circle = outline(0.5 + 0.5 * np.column_stack([np.cos(turns), np.sin(turns)]))
    assert len(circle.corners) <= 500
    assert circle.area == pytest.approx(np.pi / 4, rel=1e-3)


def test_a_scribble_is_measured_in_rows():
    rng = np.random.default_rng(0)
    scribble = outline(rng.random((300, 2)))
    rows = shapes.shared_area([scribble.corners, np.array([(0, 0), (1, 0), (1, 1), (0, 1)])])
    assert scribble.area == pytest.approx(rows, rel=1e-2)
    assert 0.2 < scribble.area < 0.8


@pytest.mark.parametrize("at_least", [0.1, 0.5, 0.9])
def test_leaving_out_hopeless_pairs_changes_no_other(at_least):
    rng = np.random.default_rng(3)
    drawn = [outline(0.3 * rng.random((3, 2)) + 0.2) for _ in range(12)]
    full, pruned = shapes.ious(drawn, drawn, 1e-9), shapes.ious(drawn, drawn, at_least)
    assert np.array_equal(pruned[full >= at_least], full[full >= at_least])


def test_shapes_without_an_inside_overlap_nothing():
    flat = [outline([(0, 0), (0.5, 0.5), (1, 1)]), box(0, 0, 0, 1), box(0.2, 0.2, 0, 0)]
    assert [shape.area for shape in flat] == pytest.approx([0, 0, 0])
    assert shapes.ious(flat, [*flat, box(0, 0, 1, 1)], 0.5).max() < 1e-9


def test_distances_are_shares_of_the_diagonal():
    points = [
        shapes.read({"type": "landmark", "label": "a", "coordinates": {"x": x, "y": x}}) for x in (0.0, 1.0)
    ]
    found = shapes.distances(points, [*points, box(0, 0, 1, 1)])
    assert found.tolist() == [[0, pytest.approx(1), np.inf], [pytest.approx(1), 0, np.inf]]
