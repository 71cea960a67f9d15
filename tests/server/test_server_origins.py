"""Which site a request comes from, and whether from this machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.server.origins import is_from_this_machine, is_host, is_same_origin


def request(
    *headers: tuple[str, str],
    host: str | None = "lab.example:8000",
    client: Any = ("127.0.0.1", 5),
    **scope: Any,
) -> dict[str, Any]:
    named = [("host", host), *headers] if host is not None else list(headers)
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in named]
    return {"type": "http", "scheme": "http", "headers": pairs, "client": client, **scope}


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("origin", "http://lab.example:8000")],
        [("origin", "http://LAB.example:8000")],
        [("referer", "http://lab.example:8000/admin/training?a=b")],
        [("referer", "http://lab.example:8000")],
        [("origin", "http://lab.example:8000"), ("referer", "http://evil.example/")],
    ],
)
def test_our_own_pages_and_programs_are_let_through(headers) -> None:
    assert is_same_origin(request(*headers))


@pytest.mark.parametrize(
    "headers",
    [
        [("origin", "null")],
        [("origin", "")],
        [("origin", "http://evil.example")],
        [("origin", "https://lab.example:8000")],
        [("origin", "http://lab.example")],
        [("origin", "http://lab.example:8001")],
        [("origin", "http://lab.example:8000.evil.example")],
        [("origin", "http://lab.example:8000/")],
        [("origin", "http://a@lab.example:8000")],
        [("origin", "http://lab.example:8000 http://evil.example")],
        [("origin", "http://lab.example:8000"), ("origin", "http://evil.example")],
        [("origin", "null"), ("referer", "http://lab.example:8000/")],
        [("referer", "http://evil.example/?http://lab.example:8000/")],
        [("referer", "http://lab.example:8000@evil.example/")],
        [("referer", "about:blank")],
        [("origin", "http://[::1")],
    ],
)
def test_pages_of_other_sites_are_not(headers) -> None:
    assert not is_same_origin(request(*headers))


def test_the_default_port_may_be_left_out() -> None:
    assert is_same_origin(request(("origin", "http://lab.example:80"), host="lab.example"))
    assert is_same_origin(request(("origin", "https://lab.example"), host="lab.example:443", scheme="https"))


def test_an_address_in_brackets_is_a_host() -> None:
    assert is_same_origin(request(("origin", "http://[::1]:8000"), host="[::1]:8000"))


def test_without_a_host_no_origin_fits() -> None:
    assert not is_same_origin(request(("origin", "http://lab.example:8000"), host=None))


ANY_BYTES = st.text(st.characters(max_codepoint=255))


@given(ANY_BYTES, ANY_BYTES.filter(bool))
def test_nothing_but_our_origin_itself_passes(before, after) -> None:
    assert not is_same_origin(request(("origin", f"{before}{after}")))
    assert not is_same_origin(request(("origin", f"http://lab.example:8000{after}")))


@given(ANY_BYTES)
def test_any_referer_is_judged(value) -> None:
    assert not is_same_origin(request(("referer", f"http://evil.example/{value}")))


@pytest.mark.parametrize("value", ["localhost", "127.0.0.1:8000", "[::1]:8000", "a_b.example", "a."])
def test_names_and_addresses_are_hosts(value) -> None:
    assert is_host(value)


@pytest.mark.parametrize(
    "value", ["", "a b", "a/b", "a@b", "a?b", "a:b", "a:", ":80", "[x]", "a,b", "é", "a:999999"]
)
def test_anything_else_is_no_host(value) -> None:
    assert not is_host(value)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000"])
@pytest.mark.parametrize("client", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"])
def test_a_browser_of_this_machine_is_known(host, client) -> None:
    assert is_from_this_machine(request(host=host, client=(client, 5)))


@pytest.mark.parametrize("client", [None, ("", 0), ("testclient", 5), ("192.0.2.1", 5), ("::2", 5)])
def test_other_machines_and_unix_sockets_are_not_this_one(client) -> None:
    assert not is_from_this_machine(request(host="localhost", client=client))


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", None])
def test_a_foreign_name_for_this_machine_is_not_believed(host) -> None:
    assert not is_from_this_machine(request(host=host))


@pytest.mark.parametrize(
    "name", ["x-forwarded-for", "X-Forwarded-For", "x-forwarded-host", "x-real-ip", "forwarded", "via"]
)
def test_what_a_proxy_passed_on_is_not_of_this_machine(name) -> None:
    assert not is_from_this_machine(request((name, "127.0.0.1"), host="localhost"))


def test_an_old_proxy_that_says_nothing_of_itself_is_not_this_machine() -> None:
    assert not is_from_this_machine(request(host="127.0.0.1:8000", http_version="1.0"))
    assert is_from_this_machine(request(host="127.0.0.1:8000", http_version="1.1"))
