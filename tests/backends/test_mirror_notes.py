"""Notes of an agent are passed on once each, also where one follower goes on for another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from potato_ray.backends.mirror_notes import NoteReader
from potato_ray.mirror.folder import MirrorFolder


@pytest.fixture
def folder(tmp_path: Path) -> MirrorFolder:
    return MirrorFolder(tmp_path)


def say(folder: MirrorFolder, *words: str) -> None:
    with folder.notes.open("a") as handle:
        handle.writelines(json.dumps({"kind": "log", "message": word}) + "\n" for word in words)


def heard(reader: NoteReader) -> list[str]:
    return [str(note["message"]) for note in reader.poll()]


def test_notes_that_came_while_nobody_followed_are_read_after_those_that_were_passed_on(
    folder: MirrorFolder,
) -> None:
    reader = NoteReader(folder)
    say(folder, "one", "two")
    assert heard(reader) == ["one", "two"]
    reader.keep_place()
    say(folder, "three")
    assert heard(NoteReader(folder)) == ["three"]


def test_what_was_read_and_not_passed_on_is_read_again(folder: MirrorFolder) -> None:
    say(folder, "one")
    assert heard(NoteReader(folder)) == heard(NoteReader(folder)) == ["one"]


def test_half_a_note_waits_for_its_end(folder: MirrorFolder) -> None:
    say(folder, "one")
    with folder.notes.open("a") as handle:
        handle.write('{"kind": "log", ')
    reader = NoteReader(folder)
    assert heard(reader) == ["one"]
    with folder.notes.open("a") as handle:
        handle.write('"message": "two"}\n')
    assert heard(reader) == ["two"]


def test_the_notes_of_the_next_holder_are_read_from_their_beginning(folder: MirrorFolder) -> None:
    say(folder, "one", "two")
    reader = NoteReader(folder)
    reader.poll()
    reader.keep_place()
    folder.forget_sent()
    say(folder, "of another")
    assert heard(NoteReader(folder)) == ["of another"]


@pytest.mark.parametrize("place", ["", "torn", "999999"])
def test_a_place_that_cannot_be_is_the_beginning(folder: MirrorFolder, place: str) -> None:
    say(folder, "one")
    folder.notes_told.write_text(place)
    assert heard(NoteReader(folder)) == ["one"]
