"""A JSON reader that holds one value at a time, so that a file may be larger than memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

_CHUNK = 1 << 18
_MARGIN = 4096
_next_character = re.compile(r"[^ \t\n\r]").search
# What nearly every file holds between two values, whole and in one step; all else goes the long way.
_plain_key = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_comma = re.compile(r"[ \t\n\r]*,[ \t\n\r]*").match
_CLOSERS = '"]}'
_NUMBER_TAIL = 3


class JsonTorn(ValueError):
    """The text is no JSON, or ends too early; the message says where."""


class JsonStream:
    """Walks through one JSON text: `array()` and `members()` go down, `value()` reads what comes next.

    Memory is bounded by the largest single value read, plus one chunk. Every error is a JsonTorn.
    """

    def __init__(self, handle: TextIO, chunk: int = _CHUNK) -> None:
        self._handle = handle
        self._chunk = chunk
        self._decode = json.JSONDecoder().raw_decode
        self._buffer = ""
        self._pos = 0
        self._line = 1
        self._at_end = False

    def peek(self) -> str:
        """The next character that is no blank, or "" at the end of the text."""
        here = self._buffer[self._pos : self._pos + 1]
        if here > " ":
            return here
        while True:
            found = _next_character(self._buffer, self._pos)
            if found is not None:
                self._pos = found.start()
                return self._buffer[self._pos]
            self._pos = len(self._buffer)
            if not self._fill():
                return ""

    def take(self, character: str) -> None:
        """Step over one expected character."""
        found = self.peek()
        if found != character:
            raise self._torn(
                f"expected {character!r}, found {found!r}" if found else "the text ends too early"
            )
        self._pos += 1

    def value(self) -> Any:
        """The next value, whole."""
        if not self.peek():
            raise self._torn("the text ends too early")
        while True:
            try:
                value, end = self._decode(self._buffer, self._pos)
            except json.JSONDecodeError as error:
                if not self._may_go_on(error) or not self._fill():
                    raise self._torn(error.msg, error.pos) from None
            except (ValueError, RecursionError) as error:
                raise self._torn(str(error)) from None
            else:
                if self._is_whole(end) or not self._fill():
                    self._pos = end
                    return value

    def array(self) -> Iterator[Any]:
        """The values of the array that comes next."""
        self.take("[")
        if self.peek() == "]":
            return self.take("]")
        while True:
            yield self.value()
            if not self._took_comma():
                return self.take("]")

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; after each, the caller reads the value."""
        self.take("{")
        if self.peek() == "}":
            return self.take("}")
        while True:
            yield self._key()
            if not self._took_comma():
                return self.take("}")

    def _key(self) -> str:
        """The next key and the colon behind it."""
        plain = _plain_key(self._buffer, self._pos)
        if plain is not None:
            self._pos = plain.end()
            return plain[1]
        key = self.value()
        if not isinstance(key, str):
            raise self._torn("an object's key is no text")
        self.take(":")
        return key

    def _took_comma(self) -> bool:
        """Step over a comma, if one comes next."""
        comma = _comma(self._buffer, self._pos)
        if comma is not None:
            self._pos = comma.end()
            return True
        if self.peek() != ",":
            return False
        self.take(",")
        return True

    def skip(self) -> None:
        """Step over the next value; a large object is not held as a whole."""
        if self.peek() != "{":
            self.value()
            return
        for _ in self.members():
            self.value()

    def _is_whole(self, end: int) -> bool:
        """False for a number near the end of the buffer: "1" may go on as "12", "1.5" or "1e+9"."""
        return self._buffer[end - 1] in _CLOSERS or end + _NUMBER_TAIL <= len(self._buffer)

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Whether more text could mend it: the trouble is at the end, or in a string not yet closed."""
        return error.pos > len(self._buffer) - _MARGIN or error.msg.startswith("Unterminated string")

    def _fill(self) -> bool:
        """Drop what was read and take in more; False at the end of the text."""
        if self._at_end:
            return False
        unread = len(self._buffer) - self._pos
        try:
            # Growing with what is unread keeps one long value linear.
            more = self._handle.read(max(self._chunk, unread))
        except UnicodeDecodeError as error:
            raise JsonTorn(f"it is not UTF-8 ({error.reason} near line {self._line})") from None
        self._at_end = not more
        if more:
            self._line += self._buffer.count("\n", 0, self._pos)
            self._buffer, self._pos = self._buffer[self._pos :] + more, 0
        return not self._at_end

    def _torn(self, why: str, at: int | None = None) -> JsonTorn:
        line = self._line + self._buffer.count("\n", 0, self._pos if at is None else at)
        return JsonTorn(f"{why} (line {line})")
