"""The login in a real browser: by keyboard, small and large, light and dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import NARROW, WIDE, chromium, page_of, served
from playwright.sync_api import Browser, expect

KEY = "the-admin-key-of-the-tests"


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def url(serve) -> Iterator[str]:
    with served(serve().app) as address:
        yield address


def test_the_key_is_typed_and_the_wanted_page_appears(chrome, url) -> None:
    with page_of(chrome, url) as page:
        page.goto("/admin/training?status=error")
        expect(page.get_by_label("Admin key")).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("That key was not recognised.")
        page.get_by_label("Admin key").fill(KEY)
        page.keyboard.press("Enter")
        page.wait_for_url("**/admin/training?status=error")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/admin/login")
        page.goto("/admin/training")
        assert "/admin/login" in page.url


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out_of_the_login(chrome, url, size, scheme) -> None:
    with page_of(chrome, url, size=size, scheme=scheme) as page:
        page.goto("/admin/login")
        page.get_by_label("Admin key").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


EVIL = """<form method="post" action="{url}/admin/logout"><button>Win a prize</button></form>
<iframe src="{url}/admin/training"></iframe>"""


def test_a_foreign_page_can_neither_use_the_session_nor_frame_a_page(chrome, url) -> None:
    with page_of(chrome, url) as page:
        page.goto("/admin/login")
        page.get_by_label("Admin key").fill(KEY)
        page.keyboard.press("Enter")
        page.wait_for_url("**/admin/training")
        evil = {"body": EVIL.format(url=url), "content_type": "text/html"}
        page.route("http://evil.example/", lambda route: route.fulfill(**evil))
        page.goto("http://evil.example/")
        assert page.frames[1].url.startswith("chrome-error:")
        with page.expect_response("**/admin/logout") as refused:
            page.get_by_role("button", name="Win a prize").click()
        assert refused.value.status == 403
        page.goto(f"{url}/admin/training")
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
