"""The system's own Chromium, and a project's server in a thread for it to look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from parts import need_command
from playwright.sync_api import Browser, Page, expect, sync_playwright
from registry_link import RegistryLink
from sse_starlette.sse import AppStatus

from potato_ray.config import ProjectConfig
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

KEY = "fixture-admin-key"
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
    look = {"viewport": size or WIDE, "color_scheme": scheme, "locale": "en-GB", **options}
    context = browser.new_context(base_url=url, **look)
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
    AppStatus.should_exit = False  # of an earlier server in this process
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


class Site:
    """A project, its server in a thread with a controller that trains nothing, and pages on it."""

    def __init__(self, config: ProjectConfig, browser: Browser, stack: ExitStack) -> None:
        self.config = config
        self.browser = browser
        self.stack = stack
        self.controller = RegistryLink(config)
        stack.callback(self.controller.close)
        self.reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
        self.app = create_app(ServerContext(config, self.reader, self.controller, admin_key=KEY))
        self.url = stack.enter_context(served(self.app))

    def open(self, where: str | Run = "/admin/training", *, admin: bool = True, **look: Any) -> Page:
        """A page by its address, or that of a run."""
        headers = {"X-API-Key": KEY} if admin else {}
        page = self.stack.enter_context(page_of(self.browser, self.url, extra_http_headers=headers, **look))
        page.goto(where if isinstance(where, str) else f"/admin/training/runs/{where.run_id}")
        return page

    def write(self, do: Callable[..., Any], *args: Any) -> Any:
        """Move runs along, as the controller would."""
        return self.controller.write(do, self.controller.registry, *args)

    def say(self, run: Run, first: int, *events: dict[str, Any], attempt: int = 1) -> None:
        """Events of a run's worker, the first of which is its number `first` from 0."""
        self.controller.write(
            self.controller.registry.record_events, run.run_id, attempt, first, list(events)
        )

    def runs(self) -> list[Run]:
        return self.reader.runs()


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
