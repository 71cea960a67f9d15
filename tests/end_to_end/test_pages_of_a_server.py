"""The Training page of a real server: a run is started, watched, another one cancelled, by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import chromium, page_of, press_start, tab_to, violations
from playwright.sync_api import Page, expect
from server_process import ServerProcess
from whole_runs import MakeProject, folder_of, reader_of

from potato_ray.config import ProjectConfig

pytestmark = pytest.mark.ray

FOR_A_RUN_MS = 60_000


@pytest.fixture
def config(make_project: MakeProject) -> ProjectConfig:
    return make_project()


@pytest.fixture
def page(config: ProjectConfig) -> Iterator[Page]:
    """The Training page of a server that is still coming up, after the login."""
    server = ServerProcess(config)
    try:
        url = server.wait_for_url()
        with chromium() as browser, page_of(browser, url) as page:
            page.goto("/admin/training")
            page.get_by_label("Admin key").fill("fixture-admin-key")
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", name="Start a run")).to_be_visible()
            yield page
    finally:
        server.close()


def test_runs_are_started_watched_cancelled_and_read_by_keyboard(config: ProjectConfig, page: Page) -> None:
    expect(page.get_by_role("button", name="Start run")).to_be_enabled()
    tab_to(page, "Trainer")
    page.keyboard.type("rehearsal")
    tab_to(page, "act")
    page.keyboard.type("wait")
    press_start(page)
    step = page.locator('.run-card [data-part="step"]')
    expect(step).to_have_text("rehearsing", timeout=FOR_A_RUN_MS)
    expect(page.locator("#trouble")).to_be_empty()
    assert violations(page) == []

    press_start(page)
    waiting = page.locator(".waiting-row")
    expect(waiting).to_contain_text("waiting #1")
    waiting.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(waiting).to_have_count(0)

    first = reader_of(config).current()[0]
    (folder_of(config, first.run_id).path / "go").touch()
    row = page.locator(f'[data-row="{first.run_id}"]')
    expect(row).to_contain_text("success", timeout=FOR_A_RUN_MS)
    expect(row).to_contain_text("val macro_f1")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    expect(page.locator("#runs tbody").first).to_contain_text("cancelled")

    page.get_by_label("Trainer", exact=True).first.focus()
    page.keyboard.type("sklearn")
    tab_to(page, "min_instances")
    page.keyboard.type("100000")
    page.keyboard.press("Enter")
    failed = page.locator("#runs tbody").first
    expect(failed).to_contain_text("items in the train split", timeout=FOR_A_RUN_MS)
    expect(page.locator("#ended")).to_contain_text("has failed")
