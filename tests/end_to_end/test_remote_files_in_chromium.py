"""Files on a host, on the page of their run in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from browser import NARROW, WIDE, Site, chromium, tab_to, violations
from left_files import FakeHost, left_run
from playwright.sync_api import Browser, expect
from run_history import folder_of
from whole_runs import MakeProject

from potato_ray.backends.artifact_copy import CopyFailed
from potato_ray.server.remote_files import RemoteFiles
from potato_ray.ssh import SshFailed

LONG = f"checkpoints/{'a-name-that-never-ends-' * 6}.safetensors"
FILES = {"model.bin": 3_000_000, "model_card.json": 2_000, LONG: 5_000_000}
FAILURE = CopyFailed("The copy from gpubox brought another size", code="copy_damaged", next_step="Try again.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def site(make_project: MakeProject, browser: Browser) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(make_project(backends={"gpu": {"type": "ssh", "host": "gpubox"}}), browser, stack)


@pytest.fixture
def host(site: Site) -> Iterator[FakeHost]:
    made = FakeHost(FILES)
    site.app.state.remote_files = RemoteFiles(made)
    yield made
    made.go.set()


def test_a_file_is_fetched_by_keyboard_and_can_then_be_downloaded(site: Site, host: FakeHost) -> None:
    host.files = {"model.bin": 3_000_000}
    page = site.open(left_run(site))
    row = page.get_by_role("row", name="model.bin")
    expect(row.get_by_role("cell").nth(1)).to_have_text("2.9 MiB")
    tab_to(page, "Fetch")
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Stop model.bin")).to_be_focused()
    expect(row).to_contain_text("1.4 MiB, 50 %")
    expect(row.get_by_role("progressbar")).to_be_visible()
    host.go.set()
    link = row.get_by_role("link", name="Download")
    expect(link).to_be_focused()
    expect(page.locator("#said")).to_have_text("model.bin is here.")
    assert len(page.request.get(link.get_attribute("href") or "").body()) == 3_000_000


def test_a_fetch_can_be_stopped_by_the_same_button(site: Site, host: FakeHost) -> None:
    page = site.open(left_run(site))
    page.get_by_role("button", name="Fetch model.bin").click()
    expect(page.get_by_role("progressbar", name="Progress of model.bin")).to_be_visible()
    page.get_by_role("button", name="Stop model.bin").click()
    expect(page.get_by_role("button", name="Fetch model.bin")).to_be_visible()


def test_what_fails_says_why_beside_the_file(site: Site, host: FakeHost) -> None:
    host.failures = [FAILURE]
    page = site.open(left_run(site))
    page.get_by_role("button", name="Fetch model.bin").click()
    row = page.get_by_role("row", name="model.bin")
    expect(row).to_contain_text("brought another size Try again.")
    expect(row.get_by_role("button", name="Fetch again model.bin")).to_be_visible()


def test_a_host_that_cannot_be_reached_can_be_looked_at_again(site: Site, host: FakeHost) -> None:
    host.trouble = SshFailed("ssh to gpubox failed: Connection refused", next_step="Look.")
    page = site.open(left_run(site))
    expect(page.locator("#remote-problem")).to_contain_text("ssh to gpubox failed: Connection refused")
    host.trouble = None
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_role("button", name="Fetch model.bin")).to_be_visible()
    expect(page.locator("#remote-problem")).to_be_empty()


def test_removal_asks_first_says_what_would_be_lost_and_takes_the_section_away(
    site: Site, host: FakeHost
) -> None:
    page = site.open(left_run(site))
    expect(page.locator("#remote-unfetched")).to_have_text("3 files are not here and would be lost.")
    page.get_by_role("button", name="Remove from gpubox").click()
    page.get_by_role("button", name="Press again to remove").click()
    expect(page.locator("#remote-files")).to_have_count(0)
    expect(page.locator("#said")).to_have_text("The files were removed from gpubox.")


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_nothing_keeps_people_out_or_overflows(site: Site, host: FakeHost, size: dict[str, int]) -> None:
    run = left_run(site)
    (folder_of(site, run.run_id) / "artifacts" / "model_card.json").write_bytes(bytes(2_000))
    page = site.open(run, size=size)
    page.get_by_role("button", name="Fetch model.bin").click()
    expect(page.get_by_role("row", name="model.bin")).to_contain_text("50 %")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
