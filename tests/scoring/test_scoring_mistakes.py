"""The mistakes that people look at: which, in which order, in which words, and in how much room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from potato_ray.scoring.mistakes import MAX_BYTES, MAX_MISTAKES, Mistake, worst_of, write_mistakes
from potato_ray.scoring.wording import in_words

SPAN = {"start": 0, "end": 4, "label": "praise"}
BOX = {"type": "bbox", "label": "round", "coordinates": {"x": 0.1, "y": 0.1, "width": 0.2, "height": 0.2}}


def ids(kind: str, *rows: tuple[str, Any, Any, float | None], scheme: Any = None) -> list[str]:
    worst, _ = worst_of(kind, scheme or {}, rows)
    return [each.instance_id for each in worst]


def test_the_most_confident_come_first_and_those_without_confidence_last() -> None:
    rows = [("a", "x", "y", None), ("b", "x", "y", 0.2), ("c", "x", "y", 0.9), ("d", "x", "x", 1.0)]
    assert ids("nominal", *rows) == ["c", "b", "a"]


def test_numbers_come_by_their_error_and_what_is_no_number_first() -> None:
    rows = [("a", 1.0, 2.0, 0.9), ("b", 1.0, -9.0, 0.1), ("c", 1.0, "x", None), ("d", 1.0, 1.0, None)]
    assert ids("continuous", *rows) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("nominal", "bad", "good"),
        ("ordinal", "3", "4"),
        ("preference", "A", "B"),
        ("multilabel", ["a", "b"], ["a"]),
        ("text", "One line", "one line"),
        ("span", [SPAN], [{**SPAN, "end": 5}]),
        ("geometry", [BOX], []),
        ("ranking", ["a", "b", "c"], ["c", "b", "a"]),
    ],
)
def test_every_kind_tells_right_from_wrong(kind: str, right: Any, wrong: Any) -> None:
    assert ids(kind, ("right", right, right, 0.9), ("wrong", right, wrong, 0.5)) == ["wrong"]


def test_labels_of_a_set_may_come_in_any_order() -> None:
    assert ids("multilabel", ("a", ["x", "y"], ["y", "x"], 1.0)) == []


def test_of_answers_without_confidence_the_worst_come_first() -> None:
    other = {**SPAN, "label": "complaint"}
    rows = [("one", [SPAN], [], None), ("two", [SPAN], [other], None)]
    assert ids("span", *rows) == ["two", "one"]


def test_a_split_gives_fifty_and_says_how_many_there_are() -> None:
    worst, n_wrong = worst_of("nominal", {}, [(f"i{n}", "x", "y", n / 200) for n in range(200)])
    assert (len(worst), n_wrong, worst[0].instance_id) == (MAX_MISTAKES, 200, "i199")


@pytest.mark.parametrize(
    ("kind", "answer", "words"),
    [
        ("nominal", "ça va", "ça va"),
        ("multilabel", ["price", "service"], "price, service"),
        ("multilabel", [], "none of the labels"),
        ("continuous", 48.0, "48"),
        ("ranking", ["a", "b"], "a > b"),
        ("span", [SPAN], "“Nice” praise"),
        ("span", [], "no span"),
        ("geometry", [BOX, BOX], "2 × round (bbox)"),
        ("geometry", [{}], "[{}]"),
        ("span", "broken", "broken"),
        ("text", "broken \ud800", "broken ?"),
    ],
)
def test_answers_are_put_into_words(kind: str, answer: Any, words: str) -> None:
    assert in_words(kind, answer, "Nice place") == words


def write(folder: Path, worst: list[Mistake], said: dict[str, dict[str, Any]], text: str = "a text") -> Any:
    """What the file of mistakes on val holds."""
    rows = [{"instance_id": each.instance_id, "text": text} for each in worst]
    (folder / "val.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = folder / "answers.jsonl"
    lines = [{"instance_id": item, "answers": each} for item, each in said.items()]
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = folder / "mistakes.json"
    write_mistakes(path, folder, answers, "tone", "nominal", {"val": (worst, len(worst))})
    return json.loads(path.read_text())["splits"]["val"]


def test_the_file_tells_the_text_and_what_everybody_said(tmp_path: Path) -> None:
    said = {"v1": {"ann": "bad", "bob": "good"}, "v2": {"ann": "bad"}}
    [row] = write(tmp_path, [Mistake("v1", "bad", "good", 0.9, 1.0)], said)["mistakes"]
    assert (row["text"], row["human"], row["predicted"], row["confidence"]) == ("a text", "bad", "good", 0.9)
    assert row["answers"] == [{"annotator": "ann", "answer": "bad"}, {"annotator": "bob", "answer": "good"}]


def test_long_texts_and_many_annotators_are_cut(tmp_path: Path) -> None:
    said = {"v1": {f"annotator {n}": "bad" for n in range(30)}}
    [row] = write(tmp_path, [Mistake("v1", "bad", "x" * 9000, 0.9, 1.0)], said, "long " * 5000)["mistakes"]
    assert (len(row["text"]), len(row["predicted"])) == (500, 200)
    assert (len(row["answers"]), row["n_more_answers"]) == (12, 18)


def test_the_file_never_grows_beyond_its_limit(tmp_path: Path) -> None:
    worst = [Mistake(f"v{n}", "bad", "\U0001f954" * 200, 0.9, 1.0) for n in range(50)]
    said = {each.instance_id: {f"{n}": "\U0001f954" * 200 for n in range(12)} for each in worst}
    split = write(tmp_path, worst, said, "\U0001f954" * 500)
    assert (tmp_path / "mistakes.json").stat().st_size <= MAX_BYTES
    assert (len(split["mistakes"]), split["n_wrong"]) == (25, 50)


def test_without_the_answers_nobody_is_named(tmp_path: Path) -> None:
    (tmp_path / "val.jsonl").write_text("")
    path, worst = tmp_path / "m.json", [Mistake("v1", "bad", "good", 0.9, 1.0)]
    write_mistakes(path, tmp_path, tmp_path / "none", "tone", "nominal", {"val": (worst, 1)})
    [row] = json.loads(path.read_text())["splits"]["val"]["mistakes"]
    assert (row["answers"], row["text"]) == ([], "")
