"""The notes in a mirror, read on from where whoever followed the run before has stopped."""

from __future__ import annotations

import json
import logging

from potato_ray.backends.endings import Event
from potato_ray.mirror.folder import MirrorFolder

logger = logging.getLogger(__name__)

_PIECE_BYTES = 1 << 20


class NoteReader:
    """Reads each note once: `keep_place`, when what was read has been passed on.

    A follower that is lost in between passes on twice what it had just read.
    """

    def __init__(self, folder: MirrorFolder) -> None:
        self._folder = folder
        self._kept = self._offset = folder.read_notes_told()
        if self._size() < self._offset:
            self._offset = 0  # they are another agent's

    def poll(self) -> list[Event]:
        """The next notes; a last line without its end waits."""
        if self._size() <= self._offset:
            return []
        with self._folder.notes.open("rb") as handle:
            handle.seek(self._offset)
            text = handle.read(_PIECE_BYTES)
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [note for line in whole.splitlines() for note in _note(line)]

    def keep_place(self) -> None:
        """What was read so far has been passed on; a place that cannot be kept costs repetitions."""
        if self._offset == self._kept:
            return
        try:
            self._folder.write_notes_told(self._offset)
            self._kept = self._offset
        except OSError as failure:
            logger.debug("the place in %s was not kept: %s", self._folder.notes, failure)

    def _size(self) -> int:
        try:
            return self._folder.notes.stat().st_size
        except OSError:
            return 0


def _note(line: bytes) -> list[Event]:
    try:
        note = json.loads(line)
    except ValueError:
        return []
    return [note] if isinstance(note, dict) and note.get("kind") in ("step", "log") else []
