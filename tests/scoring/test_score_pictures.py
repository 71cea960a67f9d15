"""The pictures are well-formed, say in words what they show, and can be read by everyone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from potato_ray.scoring import picture_axes, picture_confusion, picture_shades, picture_sheet, pictures

SVG = "{http://www.w3.org/2000/svg}"
AA = 4.5  # the least contrast of text
AA_GRAPHICS = 3.0


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 (our own text)


def words(svg: str, tag: str = "text") -> list[str]:
    return ["".join(each.itertext()) for each in parsed(svg).iter(SVG + tag)]


def desc(svg: str) -> str:
    return words(svg, "desc")[0]


def square(n: int, hits: int = 5, misses: int = 1) -> list[list[int]]:
    return [[hits if i == j else misses for j in range(n)] for i in range(n)]


def bins(n: int) -> list[dict[str, float]]:
    return [
        {
            "low": i / n,
            "high": (i + 1) / n,
            "n": 10 * (i + 1),
            "mean_confidence": (i + 0.5) / n,
            "accuracy": i / n,
        }
        for i in range(n)
    ]


EVERY_PICTURE = {
    "two labels": pictures.confusion_matrix(["no", "yes"], [[48, 12], [3, 57]], "sentiment"),
    "forty labels": pictures.confusion_matrix([f"topic {i}" for i in range(40)], square(40), "topics"),
    "no labels": pictures.confusion_matrix([], [], "nothing"),
    "one bin": pictures.reliability(bins(1), 0.5, "reliability"),
    "ten bins": pictures.reliability(bins(10), 0.05, "reliability"),
    "no bins": pictures.reliability([], math.nan, "reliability"),
    "one point": pictures.curves({"val": [(1, 0.7)]}, "score", "epoch", "macro_f1"),
    "no points": pictures.curves({"val": []}, "score", "epoch", "macro_f1"),
}


@pytest.mark.parametrize("svg", EVERY_PICTURE.values(), ids=EVERY_PICTURE.keys())
def test_every_picture_is_an_image_with_a_name_and_a_description(svg: str) -> None:
    root = parsed(svg)
    title, described = root[0], root[1]
    assert (root.tag, root.get("role")) == (SVG + "svg", "img")
    assert (title.tag, described.tag) == (SVG + "title", SVG + "desc")
    assert root.get("aria-labelledby") == f"{title.get('id')} {described.get('id')}"
    assert title.text
    assert described.text


@pytest.mark.parametrize("svg", EVERY_PICTURE.values(), ids=EVERY_PICTURE.keys())
def test_every_picture_scales_and_holds_no_script_and_nothing_from_elsewhere(svg: str) -> None:
    root = parsed(svg)
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert "max-width:100%" in str(root.get("style"))
    assert not re.search(r"<script|\son\w+=|href|url\(|@import", svg)
    assert "prefers-color-scheme: dark" in svg


def test_small_pictures_are_as_wide_as_a_phone() -> None:
    small = ("two labels", "ten bins", "one point")
    assert {parsed(EVERY_PICTURE[name]).get("width") for name in small} == {"390"}


def test_the_same_data_give_the_same_bytes_and_other_data_other_ids() -> None:
    one, again = (pictures.reliability(bins(3), 0.1, "r") for _ in range(2))
    other = pictures.reliability(bins(4), 0.1, "r")
    assert one == again
    assert parsed(one)[0].get("id") != parsed(other)[0].get("id")


def test_the_matrix_shows_counts_and_shares_of_the_row() -> None:
    said = words(EVERY_PICTURE["two labels"])
    assert {"48", "80%", "12", "20%", "3", "5%", "57", "95%"} <= set(said)
    assert {"human", "predicted", "no", "yes"} <= set(said)


def test_the_matrix_is_also_told_in_words() -> None:
    assert desc(EVERY_PICTURE["two labels"]) == (
        "Confusion matrix: 105 of 120 items (88%) are predicted as the human said. "
        "no: 60 items, 48 as no, 12 as yes. yes: 60 items, 57 as yes, 3 as no."
    )


def test_a_column_of_missing_predictions_is_drawn() -> None:
    svg = pictures.confusion_matrix(["a", "b"], [[1, 2, 7], [0, 4, 0]], "m", ["a", "b", "no prediction"])
    assert "no prediction" in words(svg)
    assert "a → no prediction: 7 of 10 (70%)" in words(svg, "title")


def test_an_empty_row_is_drawn_without_shares() -> None:
    svg = pictures.confusion_matrix(["a", "b"], [[3, 1], [0, 0]], "m")
    assert "b: no items." in desc(svg)
    assert "b → a: 0 of 0 (–)" in words(svg, "title")


def test_the_shade_follows_the_share_of_the_row() -> None:
    svg = pictures.confusion_matrix(["a", "b"], [[1, 0], [300, 700]], "m")
    shades = [each.get("class") for each in parsed(svg).iter(SVG + "g") if "→" in "".join(each.itertext())]
    assert shades == ["s10 hit", "s0", "s3", "s7 hit"]


def test_long_labels_are_cut_and_given_in_full_on_hovering() -> None:
    long = "非常に良い製品だと思いますし、また買います"
    svg = pictures.confusion_matrix([long, "ok"], square(2), "m")
    cut = [said for said in words(svg) if said.endswith("…")]
    assert len(cut) == 2
    assert all(long.startswith(said[:-1]) for said in cut)
    assert words(svg, "title").count(long) == 2


def test_thirty_labels_have_numbers_only() -> None:
    svg = pictures.confusion_matrix([f"t{i}" for i in range(30)], square(30), "m")
    numbers = [said for said in words(svg) if said in {"5", "1"}]
    assert len(numbers) == 900
    assert not [said for said in words(svg) if said.endswith("%")]
    assert "Only the" not in desc(svg)


def test_beyond_thirty_labels_the_most_frequent_are_drawn_and_the_picture_says_so() -> None:
    matrix = square(40)
    matrix[39][39] = 1000  # the most frequent
    svg = pictures.confusion_matrix([f"t{i}" for i in range(40)], matrix, "m")
    said = " ".join(words(svg))
    assert "Only the 30 most frequent of 40 labels are drawn, with 2315 of 2755 items." in said
    assert "t39" in words(svg)
    assert "t29" not in words(svg)
    assert "t0 → other labels: 10 of 44 (23%)" in words(svg, "title")


def test_counts_too_large_for_a_small_cell_are_shortened_with_the_whole_number_on_hovering() -> None:
    matrix = square(20)
    matrix[0][0] = 123_456
    svg = pictures.confusion_matrix([f"t{i}" for i in range(20)], matrix, "m")
    assert "123k" in words(svg)
    assert "t0 → t0: 123456 of 123475 (>99%)" in words(svg, "title")


@pytest.mark.parametrize(
    ("count", "shown"), [(1234, "1.2k"), (12_999, "12k"), (1_290_000, "1.2M"), (56_000_000, "56M")]
)
def test_short_counts_are_rounded_down(count: int, shown: str) -> None:
    assert picture_confusion.compact(count) == shown


@pytest.mark.parametrize(
    ("count", "total", "shown"),
    [(0, 0, "–"), (0, 9, "0%"), (1, 1000, "<1%"), (999, 1000, ">99%"), (9, 9, "100%"), (1, 3, "33%")],
)
def test_a_share_never_hides_an_item(count: int, total: int, shown: str) -> None:
    assert picture_confusion.percent(count, total) == shown


@pytest.mark.parametrize(
    ("matrix", "predicted"),
    [([[1]], None), ([[1, 2], [3]], None), (square(2), ["b", "a"]), (square(2), ["a"])],
)
def test_a_matrix_of_another_shape_is_refused(
    matrix: Sequence[Sequence[int]], predicted: Sequence[str] | None
) -> None:
    with pytest.raises(ValueError, match=r"confusion matrix|predicted labels"):
        pictures.confusion_matrix(["a", "b"], matrix, "m", predicted)


@pytest.mark.parametrize("ramp", [picture_shades.LIGHT_RAMP, picture_shades.DARK_RAMP])
def test_numbers_stand_out_on_every_shade(ramp: tuple[str, str]) -> None:
    for level in range(picture_shades.N_SHADES + 1):
        fill = picture_shades.shade(level, ramp)
        assert picture_shades.contrast(fill, picture_shades.ink_on(fill)) >= AA


@pytest.mark.parametrize("theme", [picture_sheet.LIGHT, picture_sheet.DARK])
def test_words_and_curves_stand_out_on_the_paper(theme: picture_sheet.Theme) -> None:
    contrast = picture_shades.contrast
    assert min(contrast(ink, theme.paper) for ink in (theme.ink, theme.muted)) >= AA
    assert min(contrast(colour, theme.paper) for colour in theme.series) >= AA_GRAPHICS


def test_contrast_is_that_of_wcag() -> None:
    assert picture_shades.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert picture_shades.contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)


def test_markup_in_names_stays_text() -> None:
    label = """<b>&"it's"</b>"""
    matrix = pictures.confusion_matrix([label, "b"], square(2), label)
    lines = pictures.curves({label: [(0, 1)]}, label, label, label)
    assert words(matrix, "title")[0] == words(lines, "title")[0] == label
    assert label in words(matrix)
    assert not list(parsed(matrix).iter(SVG + "b"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4, unique=True))
def test_any_labels_make_well_formed_xml(labels: list[str]) -> None:
    svg = pictures.confusion_matrix(labels, square(len(labels)), labels[0])
    svg.encode("utf-8")
    assert parsed(svg).get("role") == "img"


def test_reliability_has_a_point_and_a_bar_for_each_bin() -> None:
    svg = EVERY_PICTURE["ten bins"]
    circles = list(parsed(svg).iter(SVG + "circle"))
    bars = [each for each in parsed(svg).iter(SVG + "rect") if each.get("class") == "bar"]
    assert (len(circles), len(bars)) == (10, 10)
    assert {str(10 * (i + 1)) for i in range(10)} <= set(words(svg))
    assert float(str(circles[9].get("r"))) > float(str(circles[4].get("r")))


def test_reliability_tells_the_error_and_the_bins() -> None:
    svg = EVERY_PICTURE["ten bins"]
    assert "Expected calibration error 0.050 over 550 predictions." in " ".join(words(svg))
    assert "expected calibration error 0.050 over 550 predictions" in desc(svg)
    assert "Confidence 0.9 to 1: 100 predictions, mean confidence 0.950, accuracy 0.900." in desc(svg)


def test_a_perfectly_calibrated_bin_lies_on_the_diagonal() -> None:
    one = {"low": 0.7, "high": 0.8, "n": 4, "mean_confidence": 0.75, "accuracy": 0.75}
    svg = pictures.reliability([one], 0.0, "r")
    ideal = next(each for each in parsed(svg).iter(SVG + "path") if each.get("class") == "ideal")
    x0, y0, x1, y1 = map(float, re.findall(r"[\d.]+", str(ideal.get("d"))))
    dot = next(parsed(svg).iter(SVG + "circle"))
    assert float(str(dot.get("cx"))) == pytest.approx(x0 + 0.75 * (x1 - x0), abs=0.1)
    assert float(str(dot.get("cy"))) == pytest.approx(y0 + 0.75 * (y1 - y0), abs=0.1)


def line_styles(svg: str) -> list[tuple[str | None, str | None]]:
    """(dash, marker) of each sample in the legend."""
    samples = [each for each in parsed(svg).iter(SVG + "g") if each.find(SVG + "path") is not None]
    return [
        (line.get("stroke-dasharray"), mark.get("d"))
        for line, mark in ((each.findall(SVG + "path")) for each in samples)
    ]


def test_twenty_curves_differ_without_colour() -> None:
    svg = pictures.curves({f"c{i}": [(0, i), (1, i)] for i in range(20)}, "many", "step", "loss")
    assert len(set(line_styles(svg))) == 20


def test_curves_are_named_and_told_in_words() -> None:
    svg = pictures.curves({"train": [(1, 0.9), (2, 0.2), (3, 0.4)]}, "Loss", "epoch", "loss")
    assert "train – last 0.4" in words(svg)
    assert {"epoch", "loss", "1", "2", "3"} <= set(words(svg))
    assert desc(svg) == (
        "Curves of loss over epoch. train: 3 points, from 0.9 to 0.4, lowest 0.2 at 2, highest 0.9 at 1."
    )


def test_points_are_drawn_in_the_order_of_x() -> None:
    forth: Mapping[str, list[tuple[float, float]]] = {"a": [(1, 5), (2, 6), (3, 4)]}
    back = {"a": [(3, 4), (1, 5), (2, 6)]}
    assert pictures.curves(forth, "t", "x", "y") == pictures.curves(back, "t", "x", "y")


def test_a_single_point_is_a_marker_between_ticks() -> None:
    svg = EVERY_PICTURE["one point"]
    assert {"0", "1", "2", "0.70"} <= set(words(svg))
    marks = [each for each in parsed(svg).iter(SVG + "path") if each.get("class") == "mark0"]
    assert len(marks) == 2  # the point, and the legend's


def test_a_long_curve_is_thinned_and_keeps_its_peak() -> None:
    points = [(float(i), 1.0 if i == 50_123 else 0.0) for i in range(100_000)]
    svg = pictures.curves({"a": points}, "t", "step", "y")
    line = max((str(each.get("d")) for each in parsed(svg).iter(SVG + "path")), key=len)
    heights = [float(place.split()[1]) for place in re.split("[ML]", line)[1:]]
    assert len(heights) < 1400
    assert len({min(heights), max(heights)}) == 2
    assert "100000 points" in desc(svg)
    assert "highest 1 at 50123" in desc(svg)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_a_value_that_is_not_finite_breaks_the_curve_and_is_counted(bad: float) -> None:
    svg = pictures.curves({"a": [(0, 1), (1, 2), (2, bad), (3, 1), (4, 2)]}, "t", "step", "y")
    line = next(each for each in parsed(svg).iter(SVG + "path") if each.get("class") == "line0")
    assert str(line.get("d")).count("M") == 2
    assert "a – last 2, 1 not finite" in words(svg)
    assert not re.search(r"nan|inf\b", svg.split("<rect", 1)[1])


def test_a_curve_of_nothing_finite_stays_in_the_legend() -> None:
    svg = pictures.curves({"lost": [(0, math.nan)], "kept": [(0, 1)]}, "t", "step", "y")
    assert "lost – 1 not finite" in words(svg)
    assert "lost: Points that are not finite: 1." in desc(svg)


@pytest.mark.parametrize(
    ("least", "step"), [(0.7, 1), (1, 1), (1.2, 2), (2.1, 5), (6, 10), (0.013, 0.02), (3e-7, 5e-7)]
)
def test_steps_are_nice_numbers(least: float, step: float) -> None:
    assert picture_axes.nice_step(least) == pytest.approx(step)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0, 1], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([-1, 1], ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        ([0, 2.5e6], ["0.0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]),
        ([0, 4e5], ["0", "100k", "200k", "300k", "400k"]),
        ([0.50001, 0.50003], ["0.500010", "0.500015", "0.500020", "0.500025", "0.500030"]),
    ],
)
def test_ticks_have_the_decimals_that_they_need(values: list[float], shown: list[str]) -> None:
    axis = picture_axes.nice_axis(values, 0, 100, most=6)
    assert [axis.tick_text(tick) for tick in axis.ticks] == shown


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e99, 1e99), min_size=1, max_size=5), st.booleans())
@example([0.0, 1.9e-96], True)
@example([1e17, 1e17 + 16], True)
def test_an_axis_holds_its_values_whatever_they_are(values: list[float], whole: bool) -> None:
    axis = picture_axes.nice_axis(values, 10, 110, most=6, whole=whole)
    assert 2 <= len(axis.ticks) <= 9
    assert all(10 - 1e-3 <= axis.at(value) <= 110 + 1e-3 for value in values)
    assert all(axis.tick_text(tick) for tick in axis.ticks)


def test_a_picture_is_written_in_one_step_and_over_an_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    pictures.write(folder, "confusion.svg", "<svg>alt</svg>")
    path = pictures.write(folder, "confusion.svg", "<svg>neu ü</svg>")
    assert path == folder / "confusion.svg"
    assert path.read_text("utf-8") == "<svg>neu ü</svg>"
    assert list(folder.iterdir()) == [path]


def test_a_failed_writing_leaves_the_old_picture_and_nothing_else(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, "a.svg", "old")
    with pytest.raises(UnicodeEncodeError):
        pictures.write(tmp_path, "a.svg", "\ud800")
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["../a.svg", "a/b.svg", "/a.svg", "a.html", ""])
def test_a_name_that_leaves_the_folder_or_is_no_picture_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no file name for a picture"):
        pictures.write(tmp_path, name, "x")
