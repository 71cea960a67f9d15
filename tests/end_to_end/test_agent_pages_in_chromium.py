"""Agents on the pages in a real browser: who is there, what to type, and a run that waits for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import NARROW, WIDE, Site, chromium, press_start, tab_to, violations
from playwright.sync_api import Browser, Page, expect

from potato_ray.agent_tokens import digest_of
from potato_ray.registry.agents import AgentSeen
from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State
from potato_ray.registry.store import Registry

LAB = {
    "lab": {"type": "agent", "description": "The workstation under the desk", "queue_timeout_s": 3600},
    "a_second_machine_whose_name_is_as_long_as_names_may_well_get": {"type": "agent"},
}
CARD = {"uuid": "GPU-1", "name": "NVIDIA RTX A5000", "total_mb": 24564, "free_mb": 24110}
SIZES = (390, 640, 800, 1100, 1280)
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
"""As when somebody comes back to the page: it asks for the agents at once, and not only every 15 s."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def site(make_project: Callable[..., Any], browser: Browser) -> Iterator[Site]:
    """A project with two agent backends, the first of which is chosen."""
    with ExitStack() as stack:
        yield Site(make_project("review-sentiment", backends=LAB, backend="lab"), browser, stack)


def seen(site: Site, *agents: AgentSeen) -> None:
    site.write(lambda registry: registry.put_agents_seen(agents))


def agent(**facts: Any) -> AgentSeen:
    known: dict[str, Any] = {"host": "ws1", "python": "3.8.18", "gpus": (CARD,), "last_seen": time.time()}
    return AgentSeen("lab", **{"agent_id": "a1", **known, **facts})


def offered(site: Site) -> Run:
    def make(registry: Registry) -> Run:
        new = NewRun("sklearn-text", ("sentiment",), ("nominal",), backend="lab")
        run = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=1)
        return registry.transition(run.run_id, 0, State.OFFERED)

    return site.write(make)


def many(site: Site) -> str:
    """Agents of every sort, and a run that waits."""
    site.write(lambda registry: registry.put_token("lab", digest_of("prt_x")))
    long = "gpu-node-with-a-very-long-name-0017.cluster.department.university.example.org"
    cards = tuple({**CARD, "name": f"NVIDIA H200 NVL number {n}"} for n in range(8))
    seen(
        site,
        agent(),
        agent(agent_id="a2", host=long, gpus=cards, run_id="20260301T093000-1f2e3d"),
        agent(agent_id="a3", host="ws3", gpus=(), last_seen=time.time() - 90_000),
    )
    offered(site)
    return "/admin/training"


def nobody(site: Site) -> str:
    offered(site)
    return "/admin/training"


def waiting(site: Site) -> str:
    return f"/admin/training/runs/{offered(site).run_id}"


@pytest.mark.parametrize("state", [many, nobody, waiting])
def test_nothing_about_agents_keeps_people_out_or_overflows(site: Site, state: Callable[[Site], str]) -> None:
    page = site.open(state(site))
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (size, scheme)
    for width in SIZES:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_way_to_an_agent_is_found_by_keyboard_alone(site: Site) -> None:
    page = site.open()
    tab_to(page, "What that needs")
    page.keyboard.press("Enter")
    expect(page.locator("#agents-heading")).to_be_in_viewport()
    tab_to(page, "How to start an agent of lab")
    page.keyboard.press("Enter")
    expect(page.locator('[data-agents-of="lab"] .start-agent')).to_be_hidden()


def test_the_form_speaks_of_the_backend_that_is_chosen(site: Site) -> None:
    seen(site, agent())
    page = site.open()
    said = page.locator('#backend-about [data-agents="lab"]')
    expect(said).to_have_text("1 agent is polling; 1 waits for a run.")
    page.locator("#backend").select_option("local")
    expect(said).to_be_hidden()


def test_an_agent_that_comes_and_goes_is_shown_without_loading_the_page_again(site: Site) -> None:
    page = site.open()
    lab = page.locator('[data-agents-of="lab"]')
    expect(lab).to_contain_text("No agent is polling at present.")
    seen(site, agent())
    page.evaluate(LOOK_AGAIN)
    expect(lab.locator("tbody th")).to_have_text("ws1")
    expect(lab.locator('[data-piece="state"]')).to_contain_text("1 agent is polling")
    expect(page.locator('#backend-about [data-agents="lab"]')).to_contain_text("1 agent is polling")
    expect(lab.locator("details")).not_to_have_attribute("open", "")


def test_what_somebody_has_unfolded_stays_so_while_agents_come(site: Site) -> None:
    seen(site, agent())
    page = site.open()
    lab = page.locator('[data-agents-of="lab"]')
    lab.locator("summary").click()
    seen(site, agent(agent_id="a2", host="ws2"))
    page.evaluate(LOOK_AGAIN)
    expect(lab.locator("tbody th")).to_have_count(2)
    expect(lab.locator(".start-agent")).to_be_visible()


def test_a_command_that_is_being_copied_is_left_alone(site: Site) -> None:
    page = site.open()
    command = page.locator('[data-agents-of="lab"] pre.command').first
    command.select_text()
    chosen = page.evaluate("getSelection().toString()")
    seen(site, agent())
    page.evaluate(LOOK_AGAIN)
    expect(page.locator('[data-agents-of="lab"] tbody th')).to_have_text("ws1")
    assert page.evaluate("getSelection().toString()") == chosen != ""


def test_a_run_on_offer_counts_its_wait_and_asks_for_an_agent_until_one_is_there(site: Site) -> None:
    page = site.open()
    offered(site)
    row = page.locator(".waiting-row")
    expect(row.locator('[data-part="status"]')).to_have_text("waiting for an agent")
    wait, start = row.locator('[data-part="wait"]'), row.locator('[data-part="start"]')
    expect(wait).to_contain_text("no agent is polling. On the training machine:")
    server = f"http://<this-server>:{urlsplit(site.url).port}"
    expect(start).to_have_text(f"potato-ray training agent --server {server} --backend lab")
    expect(wait).to_contain_text("for 2 s", timeout=6_000)
    seen(site, agent())
    expect(wait).not_to_contain_text("no agent is polling")
    expect(wait).to_contain_text("for ")
    expect(start).to_be_empty()


def test_a_start_that_waits_for_an_agent_says_so(site: Site) -> None:
    page = site.open()
    answer = {"started": True, "run_id": "r", "queued": True, "position": 0}
    page.route("**/api/runs", lambda route: route.fulfill(status=202, json=answer))
    press_start(page)
    expect(page.locator("#start-said")).to_contain_text("It waits for an agent.")


def told(page: Page) -> Any:
    return page.locator('[data-part="no-agent"]')


def test_the_page_of_a_run_asks_for_an_agent_until_one_is_there(site: Site) -> None:
    run = offered(site)
    page = site.open(run)
    expect(told(page)).to_be_visible()
    expect(page.locator('#now [data-part="step"]')).to_have_text("waiting for an agent")
    expect(page.locator('[data-part="elapsed"]')).to_contain_text("for ")
    seen(site, agent())
    expect(told(page)).to_be_hidden()
    site.write(lambda registry: registry.begin(run.run_id, None, 1))
    expect(page.locator('[data-part="status"]')).to_have_text("building")


def test_a_check_shows_its_warning(site: Site) -> None:
    site.write(lambda registry: registry.put_token("lab", digest_of("prt_x")))
    page = site.open()
    page.get_by_role("button", name="Check").click()
    report = page.locator("#check-report .notice.warning")
    expect(report).to_contain_text("A run could start. lab (agent)")
    expect(report).to_contain_text("No agent is polling at present, so a run would wait for one.")
