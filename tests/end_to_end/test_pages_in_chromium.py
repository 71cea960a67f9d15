"""The pages in a real browser: by keyboard, narrow and wide, light and dark, through a lost connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from browser import KEY, NARROW, WIDE, Site, chromium, press_start, tab_to, violations
from many_runs import LONG_REASON, Past, a_run_and_a_queue, thirty_runs
from playwright.sync_api import Browser, Route, expect

from potato_ray.registry.states import State
from potato_ray.registry.store import Registry
from potato_ray.server.context import Phase

LAB = {"lab": {"type": "ssh", "host": "gpu.example.org", "description": "Two cards, shared with others"}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def site(make_project, browser: Browser) -> Iterator[Callable[..., Site]]:
    """Makes sites: `site()` or `site("shapes", queue_max=2)`."""
    with ExitStack() as stack:
        yield lambda name="review-sentiment", **training: Site(make_project(name, **training), browser, stack)


def empty(site: Site) -> str:
    return "/admin/training"


def long_past(site: Site) -> str:
    site.write(thirty_runs)
    return "/admin/training"


def under_way(site: Site) -> str:
    site.write(thirty_runs)
    site.write(a_run_and_a_queue)
    site.controller.phase = Phase.RESTARTING
    return "/admin/training"


def login(site: Site) -> str:
    return "/admin/login"


@pytest.mark.parametrize("state", [empty, long_past, under_way, login])
def test_nothing_keeps_people_out_or_overflows(site, state: Callable[[Site], str]) -> None:
    made = site("multi-scheme", backends=LAB)
    page = made.open(state(made), admin=state is not login)
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (size, scheme)
    for width in (390, 640, 800, 1100, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_run_is_started_watched_and_another_cancelled_by_keyboard_alone(site) -> None:
    made = site()
    page = made.open()
    tab_to(page, "min_instances")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    expect(page.locator("#start-said")).to_contain_text("Started.")
    run = made.runs()[0]
    assert run.params == {"min_instances": 12}

    made.write(lambda registry: registry.begin(run.run_id, None, 1))
    made.write(lambda registry: Past(registry).move(run, State.RUNNING))
    step = page.locator('.run-card [data-part="step"]')
    for number, words in enumerate(("reading 126 texts", "fitting LogisticRegression")):
        said = [{"event": "status", "phase": "fitting", "step": words}]
        made.write(lambda registry, n, s: registry.record_events(run.run_id, 1, n, s), number, said)
        expect(step).to_have_text(words)

    tab_to(page, "Start run")
    page.keyboard.press("Space")
    waiting = page.locator(".waiting-row")
    expect(waiting).to_contain_text("waiting #1")
    page.locator("#now-heading").evaluate("(heading) => { heading.tabIndex = -1; heading.focus() }")
    tab_to(page, "Cancel run")  # that of the run under way
    tab_to(page, "Cancel run")
    page.keyboard.press("Enter")
    expect(waiting.get_by_role("button")).to_have_text("Press again to cancel")
    page.keyboard.press("Enter")
    expect(waiting).to_have_count(0)
    assert [each.status for each in made.runs()] == ["cancelled", "running"]
    assert page.evaluate("document.activeElement.id") == "now-heading"


def test_a_second_thought_lets_the_run_go_on(site) -> None:
    made = site()
    made.write(a_run_and_a_queue, 0)
    page = made.open()
    button = page.get_by_role("button", name="Cancel run")
    button.press("Enter")
    page.get_by_role("button", name="Press again to cancel").press("Escape")
    expect(button).to_be_visible()
    assert [each.status for each in made.runs()] == ["running"]


def test_a_run_that_ends_leaves_no_trace_of_running(site) -> None:
    made = site()
    [run] = made.write(a_run_and_a_queue, 0)
    page = made.open()
    expect(page.locator(".run-card")).to_be_visible()
    made.write(lambda registry: Past(registry).move(run, State.ERROR, error=LONG_REASON))
    expect(page.locator("#ended")).to_contain_text("sklearn-text on sentiment has failed.")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    expect(page.locator("#idle")).to_be_visible()
    row = page.locator(f'[data-row="{run.run_id}"]')
    expect(row).to_contain_text("error")
    expect(row).to_contain_text(LONG_REASON)
    assert "running" not in page.locator("main").inner_text().replace("Nothing is running", "")


def test_a_run_that_ends_while_its_page_is_loading_is_told_of_as_well(site) -> None:
    made = site()
    [run] = made.write(a_run_and_a_queue, 0)
    page = made.open("/health")

    def end_before(route: Route) -> None:
        made.write(lambda registry: Past(registry).move(run, State.ERROR, error=LONG_REASON))
        route.continue_()

    page.route("**/static/training.js", end_before)
    page.goto("/admin/training")
    expect(page.locator("#ended")).to_contain_text("sklearn-text on sentiment has failed.")


def test_a_second_thought_is_given_its_whole_time_again(site) -> None:
    made = site()
    made.write(a_run_and_a_queue, 0)
    page = made.open("/health")
    page.clock.install()
    page.goto("/admin/training")
    page.get_by_role("button", name="Cancel run").press("Enter")
    sure = page.get_by_role("button", name="Press again to cancel")
    sure.press("Escape")
    page.clock.run_for(5_500)
    page.get_by_role("button", name="Cancel run").press("Enter")
    page.clock.run_for(1_000)
    assert sure.is_visible()
    page.clock.run_for(5_000)
    expect(page.get_by_role("button", name="Cancel run")).to_be_visible()


def test_a_cancel_that_was_taken_cannot_be_pressed_again(site) -> None:
    made = site()
    made.write(a_run_and_a_queue, 0)
    page = made.open()
    posted = []

    def take(route: Route) -> None:
        posted.append(route)
        route.fulfill(json={"cancelled": False})

    page.route("**/cancel", take)
    button = page.locator("#active [data-cancel]")
    button.press("Enter")
    with page.expect_response("**/api/status"):
        button.press("Enter")
    expect(button).to_have_text("Cancelling…")
    for _ in range(2):
        button.press("Enter")
    expect(button).to_have_text("Cancelling…")
    assert len(posted) == 1


def test_a_cancel_that_was_refused_can_be_pressed_again(site) -> None:
    made = site()
    made.write(a_run_and_a_queue, 0)
    page = made.open()
    page.route("**/cancel", lambda route: route.abort())
    button = page.locator("#active [data-cancel]")
    for _ in range(2):
        button.press("Enter")
    expect(page.locator("#cancel-problem")).to_contain_text("The server does not answer.")
    expect(page.locator("#cancel-problem")).not_to_contain_text("entered")
    expect(button).to_have_text("Cancel run")
    page.unroute("**/cancel")
    for _ in range(2):
        button.press("Enter")
    expect(page.locator(".run-card .status")).to_have_text("cancelling")


def test_the_end_of_a_run_is_heard_also_when_the_next_one_begins_at_once(site) -> None:
    made = site()
    [run] = made.write(a_run_and_a_queue, 0)
    page = made.open("/health")
    page.clock.install()
    page.goto("/admin/training")
    expect(page.locator("#said")).to_have_text("sklearn-text on sentiment: fitting LogisticRegression")

    def end_and_begin(registry: Registry) -> None:
        Past(registry).move(run, State.ERROR, error="It broke.")
        Past(registry).working(schemas=("topic",))

    made.write(end_and_begin)
    expect(page.locator("#said")).to_have_text("sklearn-text on sentiment has failed.")
    expect(page.locator(".run-card")).to_contain_text(
        re.compile("topic.*fitting LogisticRegression", re.DOTALL)
    )
    page.clock.run_for(6_000)
    expect(page.locator("#said")).to_have_text("sklearn-text on topic: fitting LogisticRegression")


def test_a_run_that_is_being_cancelled_cannot_be_cancelled_again(site) -> None:
    made = site()
    made.write(a_run_and_a_queue, 0)
    page = made.open()
    page.get_by_role("button", name="Cancel run").press("Enter")
    page.get_by_role("button", name="Press again to cancel").press("Enter")
    expect(page.locator(".run-card .status")).to_have_text("cancelling")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    expect(page.locator("#runs tbody").first).to_contain_text("cancelling")


def test_a_run_that_is_only_written_back_cannot_be_cancelled(site) -> None:
    made = site()
    [run] = made.write(a_run_and_a_queue, 0)
    page = made.open()
    button = page.get_by_role("button", name="Cancel run")
    button.focus()
    made.write(lambda registry: Past(registry).move(run, State.FINISHING))
    expect(page.locator(".run-card .status")).to_have_text("finishing")
    expect(button).to_have_count(0)
    assert page.evaluate("document.activeElement.id") == "now-heading"
    page.reload()
    expect(page.locator(".run-card")).to_be_visible()
    expect(button).to_have_count(0)


def test_another_warning_in_the_place_of_one_is_shown(site) -> None:
    made = site()
    [run] = made.write(a_run_and_a_queue, 0)
    page = made.open()
    warnings = page.locator('.run-card [data-part="warnings"] li')
    expect(warnings).to_have_text(["3 torn annotation files were left out."])
    made.write(lambda registry: registry.update(run.run_id, 1, warnings=("It is slow.",)))
    expect(warnings).to_have_text(["It is slow."])


def test_ends_are_told_also_after_the_last_record_was_pruned(site) -> None:
    made = site()
    made.write(lambda registry: Past(registry).fail())
    page = made.open()
    expect(page.locator("#runs tbody")).to_contain_text("error")
    assert len(made.write(lambda registry: registry.prune(0))) == 1
    [run] = made.write(a_run_and_a_queue, 0)
    expect(page.locator(".run-card")).to_be_visible()
    expect(page.locator("#ended")).to_be_empty()
    made.write(lambda registry: Past(registry).move(run, State.ERROR, error="It broke."))
    expect(page.locator("#ended")).to_contain_text("sklearn-text on sentiment has failed.")


def test_a_failed_run_is_found_and_its_reason_read_by_keyboard(site) -> None:
    made = site()
    failed = made.write(lambda registry: Past(registry).fail())
    page = made.open(size=NARROW)
    row = page.locator(f'[data-row="{failed.run_id}"]')
    expect(row).to_contain_text(LONG_REASON)
    tab_to(page, row.get_by_role("link").inner_text())
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/admin/training/runs/{failed.run_id}")


def test_a_double_click_starts_one_run(site) -> None:
    made = site()
    page = made.open()
    page.get_by_role("button", name="Start run").dblclick()
    expect(page.locator("#start-said")).to_contain_text("Started.")
    assert len(made.runs()) == 1


def test_a_start_without_an_answer_is_repeated_and_starts_nothing_twice(site) -> None:
    made = site()
    page = made.open()
    lost = []

    def lose_the_first(route) -> None:
        if route.request.method == "POST" and not lost:
            lost.append(route.fetch().status)
            route.abort()
        else:
            route.continue_()

    page.route("**/admin/training/api/runs", lose_the_first)
    press_start(page)
    expect(page.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
    press_start(page)
    expect(page.locator("#start-said")).to_contain_text("Started.")
    assert (lost, len(made.runs())) == ([200], 1)


BROKEN_OFF = [
    (
        503,
        '{"error": "The command was sent; it may have been taken.", "error_code": "x"}',
        "may have been taken",
    ),
    (502, '{"message": "Bad gateway"}', "The server answered 502"),
    (
        200,
        '{"started": tr',
        "Try again in a while. What you entered is still here.",
    ),
]


@pytest.mark.parametrize(("status", "body", "said"), BROKEN_OFF)
def test_a_start_that_was_broken_off_may_be_taken_and_starts_nothing_twice(
    site, status: int, body: str, said: str
) -> None:
    made = site()
    page = made.open()
    taken = []

    def break_off_the_first(route: Route) -> None:
        if route.request.method == "POST" and not taken:
            taken.append(route.fetch().status)
            route.fulfill(status=status, body=body)
        else:
            route.continue_()

    page.route("**/admin/training/api/runs", break_off_the_first)
    press_start(page)
    expect(page.locator("#start-problem .notice")).to_contain_text(said)
    press_start(page)
    expect(page.locator("#start-said")).to_contain_text("Started.")
    assert (taken, len(made.runs())) == ([200], 1)


@pytest.mark.parametrize(
    ("field", "written", "said"),
    [
        ("min_instances", "0", "Write 1 or more."),
        ("min_instances", "2.5", "Write a whole number."),
        ("classifier_kwargs", "{C: 2}", "This is no JSON"),
        ("classifier_kwargs", "[1]", "Write a JSON object"),
        ("classifier", "os.system", "classifier must come from"),
        ("vectorizer", "Tfidf", "vectorizer Tfidf is not known by its short name"),
    ],
)
def test_what_is_wrong_with_a_field_is_said_at_the_field(site, field: str, written: str, said: str) -> None:
    page = site().open()
    control = page.locator(f"#sklearn-text--{field}")
    control.evaluate("(control, value) => { control.value = value }", written)
    press_start(page)
    expect(control).to_be_focused()
    expect(control).to_have_attribute("aria-invalid", "true")
    expect(control).to_have_accessible_description(re_of(said))
    assert violations(page) == []


def re_of(words: str) -> re.Pattern[str]:
    return re.compile(re.escape(words))


def test_a_full_queue_is_told_on_top_with_the_next_step(site) -> None:
    made = site(queue_max=0)
    made.write(a_run_and_a_queue, 0)
    page = made.open()
    press_start(page)
    expect(page.locator("#start-problem .notice")).to_contain_text("queue")


def test_the_form_follows_the_trainer_and_its_licence_is_asked_for(site) -> None:
    made = site("multi-scheme")
    page = made.open()
    trainer, scheme = page.get_by_label("Trainer", exact=True).first, page.get_by_label("Scheme", exact=True)
    assert "strength (slider)" in scheme.inner_text()
    trainer.select_option("licensed")
    assert "strength (slider)" not in scheme.inner_text()
    scheme.select_option("channel")
    trainer.select_option("sklearn-text")
    expect(scheme).to_have_value("channel")
    trainer.select_option("licensed")
    press_start(page)
    licence = page.get_by_label("I accept the licence")
    expect(licence).to_be_focused()
    licence.press("Space")
    press_start(page)
    expect(page.locator("#start-said")).to_contain_text("Started.")
    [run] = made.runs()
    assert (run.trainer, run.schemas, run.accept_licence) == ("licensed", ("channel",), True)


def test_a_backend_is_checked_beneath_its_menu(site) -> None:
    page = site(backends=LAB).open()
    page.get_by_role("button", name="Check").press("Enter")
    report = page.locator("#check-report")
    expect(report).to_contain_text("local: this machine")
    page.get_by_label("Runs on").select_option("lab")
    expect(report).to_be_empty()
    expect(page.get_by_text("Two cards, shared with others")).to_be_visible()


def test_a_backend_is_checked_once_at_a_time_and_another_at_once(site) -> None:
    page = site(backends=LAB).open()
    asked: list[Route] = []
    page.route("**/api/backends/*/check", lambda route: asked.append(route))
    button = page.get_by_role("button", name="Check")
    for _ in range(3):
        button.press("Enter")
    expect(page.locator("#check-report")).to_have_text("Checking local…")
    page.get_by_label("Runs on").select_option("lab")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    button.press("Enter")
    expect(page.locator("#check-report")).to_have_text("Checking lab…")
    assert [each.request.url.split("/")[-2] for each in asked] == ["local", "lab"]
    with page.expect_response("**/local/check"):
        asked[0].fulfill(json={"ok": True, "summary": "local", "checks": []})
    expect(page.locator("#check-report")).to_have_text("Checking lab…")
    asked[1].fulfill(json={"ok": False, "summary": "lab", "checks": []})
    expect(page.locator("#check-report")).to_contain_text("A run could not start. lab")


def test_a_lost_connection_is_told_and_found_again(site) -> None:
    made = site()
    [run] = made.write(a_run_and_a_queue, 0)
    page = made.open()
    expect(page.locator(".run-card")).to_be_visible()
    page.route("**/admin/training/api/**", lambda route: route.abort())
    page.reload()
    expect(page.locator("#connection")).to_contain_text("Connection lost, trying again.")
    page.unroute("**/admin/training/api/**")
    made.write(lambda registry: Past(registry).move(run, State.ERROR, error="It broke."))
    expect(page.locator("#connection")).to_be_empty()
    expect(page.locator("#idle")).to_be_visible()


def test_without_the_stream_the_page_asks(site) -> None:
    made = site()
    page = made.open("/health")
    page.route("**/admin/training/api/stream", lambda route: route.abort())
    page.goto("/admin/training")
    made.write(a_run_and_a_queue, 1)
    expect(page.locator(".run-card")).to_contain_text("fitting LogisticRegression")
    expect(page.locator(".waiting-row")).to_contain_text("waiting #1")
    expect(page.locator("#connection")).to_be_empty()


def test_a_page_that_was_hidden_in_between_asks_no_more_often(site) -> None:
    page = site().open("/health")
    page.clock.install()
    asked: list[Route] = []

    def hold_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route("**/admin/training/api/stream", lambda route: route.abort())
    page.route("**/admin/training/api/status", hold_the_first)
    with page.expect_request("**/api/status"):
        page.goto("/admin/training")
    with page.expect_response("**/api/status"):
        page.evaluate("['pagehide', 'pageshow'].forEach((each) => window.dispatchEvent(new Event(each)))")
    with page.expect_response("**/api/status"):
        asked[0].continue_()
    before = len(asked)
    page.clock.run_for(3_000)
    page.evaluate("fetch('/health').then((answer) => answer.text())")
    assert len(asked) - before == 1


def test_a_controller_that_comes_up_is_told_and_then_no_more(site) -> None:
    made = site()
    made.controller.phase = Phase.STARTING
    page = made.open()
    expect(page.locator("#trouble")).to_contain_text("The server is starting.")
    made.controller.phase = Phase.READY
    expect(page.locator("#trouble")).to_be_empty()


def test_the_key_opens_the_page_and_logging_out_closes_it(site) -> None:
    page = site().open("/admin/training", admin=False)
    page.get_by_label("Admin key").fill(KEY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Training")).to_be_visible()
    press_start(page)
    expect(page.locator("#start-said")).to_contain_text("Started.")
    page.route("**/admin/training/api/stream", lambda route: route.abort())
    page.reload()
    other = page.context.new_page()
    other.goto("/admin/training")
    other.get_by_role("button", name="Log out").press("Enter")
    expect(other.get_by_label("Admin key")).to_be_visible()
    page.bring_to_front()
    expect(page.locator("#connection")).to_contain_text("You are logged out.")
    page.reload()
    expect(page.get_by_label("Admin key")).to_be_visible()


def test_names_that_look_like_markup_stay_words(site) -> None:
    made = site()
    page = made.open()
    made.write(lambda registry: Past(registry).working(schemas=("<img src=x onerror=alert(1)>",)))
    expect(page.locator(".run-card h3")).to_have_text("sklearn-text on <img src=x onerror=alert(1)>")
    expect(page.locator("#runs tbody").first).to_contain_text("<img src=x")
    assert page.locator("main img").count() == 0
