"""No secret comes through in what an agent sends, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.mirror.secrecy import without_secrets

TOKEN = "prt_" + "aB3-_" * 8
LEASE = "0123456789abcdef" * 2


def escaped(text: str, every: int = 1) -> str:
    """A text in JSON's escapes, each n-th character."""
    return "".join(rf"\u{ord(each):04x}" if n % every == 0 else each for n, each in enumerate(text))


def taken(json_text: str) -> Any:
    return json.loads(without_secrets(json_text.encode(), (TOKEN, LEASE)))


@pytest.mark.parametrize("secret", [TOKEN, LEASE, "prt_" + "x" * 20])
@pytest.mark.parametrize("every", [1, 3, 7])
def test_a_secret_is_hidden_however_it_is_escaped(secret: str, every: int) -> None:
    lower = escaped(secret, every)
    for written in (secret, lower, lower.upper().replace(r"\U", r"\u") if every == 1 else lower):
        assert taken(f'{{"message": "it is {written}."}}') == {"message": "it is [hidden]."}


def test_a_secret_behind_an_escaped_backslash_is_hidden_too() -> None:
    assert taken(rf'{{"message": "C:\\{escaped(TOKEN)}"}}') == {"message": "C:\\[hidden]"}


def test_what_only_looks_like_an_escape_stays() -> None:
    text = rf'{{"message": "a regex \\u0061 and \u0022quoted\u005c text, {escaped("é")}"}}'
    assert taken(text) == json.loads(text)


def test_a_key_is_no_place_for_a_secret_either() -> None:
    assert taken(f'{{"{escaped(TOKEN)}": 1}}') == {"[hidden]": 1}


@given(st.recursive(st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)))
def test_json_without_secrets_means_the_same_however_it_is_written(value: Any) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        needless = text.replace("a", r"\u0061").replace(r"\\u0061", "\\\\u0061")
        for written in (text, needless):
            try:
                meant = json.loads(written)
            except ValueError:
                continue
            data = written.encode("utf-8", "surrogatepass")
            assert json.loads(without_secrets(data, ()).decode("utf-8", "surrogatepass")) == meant


def test_bytes_that_are_no_json_are_passed_on() -> None:
    assert without_secrets(b"\\u0061\\", ()) == b"a\\"
