"""The login leads to pages of ours and nowhere else."""

from __future__ import annotations

from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.server.destinations import HOME, destination, login_page


@pytest.mark.parametrize(
    "wanted",
    [
        "/admin/training",
        "/admin/training/",
        "/admin/training/runs/20260801T120000-ab12cd",
        "/admin/training?status=error&trainer=a..b&q=%2F%2Fevil",
        "/admin",
    ],
)
def test_pages_below_admin_are_led_to(wanted) -> None:
    assert destination(wanted) == wanted


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "/",
        "training",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http://evil.example/admin/training",
        "javascript:alert(1)",
        "/administrator",
        "/admin//evil.example",
        "/admin/..//evil.example",
        "/admin/%2e%2e/x",
        "/admin/../x",
        "/admin/./x",
        "/admin/training\\..\\x",
        "/admin/training#x",
        "/admin/training?a\r\nSet-Cookie: b=c",
        "/admin/training?a b",
        "/admin/training?\\",
        "/admin/training\n",
        "/admin/login",
        "/admin/login/?next=/admin/training",
        "/admin/logout",
        "/%61dmin/training",
        "/admin/training?" + "a" * 3000,
    ],
)
def test_anything_else_leads_to_the_training_page(wanted) -> None:
    assert destination(wanted) == HOME


NEAR = st.text("/\\adminx.%2ef:?#@&=\r\n\t 0", max_size=40).map(lambda rest: "/admin" + rest)


@given(st.one_of(st.text(), NEAR))
def test_no_wish_leaves_this_server(wanted) -> None:
    led_to = urlsplit(urljoin("http://lab.example/admin/login", destination(wanted)))
    assert (led_to.scheme, led_to.netloc) == ("http", "lab.example")
    assert led_to.path == "/admin" or led_to.path.startswith("/admin/")


@given(st.one_of(st.text(), NEAR))
def test_the_login_page_remembers_the_destination(wanted) -> None:
    address = login_page(wanted)
    assert address.isascii()
    assert parse_qs(urlsplit(address).query)["next"] == [destination(wanted)]
