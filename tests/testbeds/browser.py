"""The system's own Chromium, and a server in a thread for it to look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from parts import need_command
from playwright.sync_api import Browser, Page, expect, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
UP_S = 20.0
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}
TABS_MAX = 80


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; a machine without Chromium skips the test, CI fails it."""
    path = need_command("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(
    browser: Browser, url: str, *, size: dict[str, int] | None = None, scheme: str = "light", **options: Any
) -> Iterator[Page]:
    """A fresh page, light or dark, without cookies. An error of its scripts fails the test."""
    context = browser.new_context(
        viewport=size or WIDE, color_scheme=scheme, base_url=url, locale="en-GB", **options
    )
    context.set_default_timeout(15_000)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert errors == [], errors


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of an application that a thread serves."""
    # Streams last for ever: the end does not wait for them.
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + UP_S
    while not server.started:
        assert thread.is_alive(), "the server did not come up"
        assert time.monotonic() < deadline, "the server did not come up in time"
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=15)
        assert not thread.is_alive()


def violations(page: Page) -> list[str]:
    """What axe-core finds that keeps people out."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']][:3]}" for each in found]


def tab_to(page: Page, name: str) -> None:
    """Press Tab until a control of that name or text has the focus."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => { const e = document.activeElement, label = e.labels?.[0];"
            " return [e.innerText, label?.innerText].filter(Boolean).map((t) => t.trim()) }"
        )
        if name in focused:
            return
    raise AssertionError(f"Tab never reaches {name}")


def press_start(page: Page) -> None:
    """Press Start run, once the page's script has made it work."""
    button = page.get_by_role("button", name="Start run")
    expect(button).to_be_enabled()
    button.press("Enter")
