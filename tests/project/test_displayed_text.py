from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.project.displayed import DisplayedText

NOTE = "  leading   spaces\nand a newline, great service"


def test_potatos_recorded_span_falls_on_its_word():
    displayed = DisplayedText(NOTE)
    assert displayed.text[36:43] == "service"
    assert displayed.raw_span(36, 43) == (40, 47)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a <b>bold</b> word", "a bold word"),
        ("x<!-- note -->y", "xy"),
        ("a <!--> b <!---> c --> <!-- d --!> e", "a b c --> e"),
        ("x <!-- note\nnever <b>closed", "x"),
        ("5 < 6 & 7 > 2, <3", "5 < 6 & 7 > 2, <3"),
        ("fish &amp; chips &#233;", "fish & chips é"),
        ("a\t\r\n  b  ", "a b"),
        ("no\u00a0\u00a0break", "no\u00a0\u00a0break"),
        ("😀 ok", "😀 ok"),
        ("", ""),
    ],
)
def test_the_text_is_shown_as_a_page_shows_it(raw, shown):
    assert DisplayedText(raw).text == shown


def test_offsets_lead_back_over_tags_and_entities():
    raw = "<p>fish &amp; <b>chips</b></p>"
    displayed = DisplayedText(raw)
    start, end = displayed.raw_span(5, 12)
    assert displayed.text[5:12] == "& chips"
    assert raw[start:end] == "&amp; <b>chips"


def test_comments_that_are_never_closed_take_no_longer_than_the_text():
    assert DisplayedText("a<!--" * 20_000).text == "a"


@pytest.mark.parametrize("span", [(-1, 2), (2, 2), (3, 2), (0, 44), (10**20, 10**21)])
def test_a_span_outside_of_the_text_has_no_place(span):
    assert DisplayedText(NOTE).raw_span(*span) is None


@given(st.text())
def test_any_text_maps_every_character_back(raw):
    displayed = DisplayedText(raw)
    ends = [displayed.raw_span(n, n + 1) for n in range(len(displayed.text))]
    assert all(0 <= start < end <= len(raw) for start, end in ends)


@given(st.text(alphabet="abc é😀", min_size=1))
def test_plain_words_are_found_where_they_stand(raw):
    displayed = DisplayedText(raw)
    for n, character in enumerate(displayed.text):
        start, _ = displayed.raw_span(n, n + 1)
        assert html.unescape(raw[start]) == character
