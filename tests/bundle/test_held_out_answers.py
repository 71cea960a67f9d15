"""What each annotator said of the held-out items lies beside the bundle, never in it."""

from __future__ import annotations

from potato_ray.bundle.builder import build
from potato_ray.bundle.held_out_answers import read_held_out_answers
from potato_ray.bundle.reading import digest_of

ITEMS = [{"id": f"i{number:02d}", "text": f"text {number}"} for number in range(40)]
ANSWERS = {
    "ann": {item["id"]: "good" for item in ITEMS},
    "bob": {item["id"]: "bad" for item in ITEMS[:20]},
}


def test_the_answers_to_the_held_out_items_are_kept_by_annotator(small, tmp_path):
    path = tmp_path / "answers.jsonl"
    report = build(small(ITEMS, ANSWERS), tmp_path / "run" / "bundle", answers=path)
    held_out = {*report.splits["val"], *report.splits["test"]}
    said = read_held_out_answers(path, {item["id"] for item in ITEMS})
    assert set(said) == held_out
    for item, answers in said.items():
        both = item < "i20"
        assert answers == ({"ann": "good", "bob": "bad"} if both else {"ann": "good"})


def test_the_bundle_names_no_annotator_and_has_the_same_digest(small, tmp_path):
    build(small(ITEMS, ANSWERS), tmp_path / "one" / "bundle")
    build(small(ITEMS, ANSWERS), tmp_path / "two" / "bundle", answers=tmp_path / "answers.jsonl")
    assert digest_of(tmp_path / "one" / "bundle") == digest_of(tmp_path / "two" / "bundle")
    for file in (tmp_path / "two" / "bundle").iterdir():
        assert not file.is_file() or '"bob"' not in file.read_text()


def test_the_file_is_for_its_owner_alone(small, tmp_path):
    path = tmp_path / "answers.jsonl"
    build(small(ITEMS, ANSWERS), tmp_path / "run" / "bundle", answers=path)
    assert path.stat().st_mode & 0o777 == 0o600
