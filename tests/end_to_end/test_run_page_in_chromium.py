"""The page of a run in a real browser: finished, failed, waiting, and while it is under way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from browser import NARROW, WIDE, Site, chromium, violations
from playwright.sync_api import Browser, expect
from run_history import begin, fail, folder_of, move, wait
from scored_runs import long_labels, scored
from whole_runs import MakeProject, OpenSession, ended, start

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

LONG_EVIDENCE = "\n".join(f"  File {n}: a_line_of_a_traceback_that_never_ends_{'x' * 150}" for n in range(60))

LINES = """(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def site(make_project: MakeProject, browser: Browser) -> Iterator[Callable[..., Site]]:
    with ExitStack() as stack:
        yield lambda name="review-sentiment", **training: Site(make_project(name, **training), browser, stack)


def working(site: Site) -> Run:
    """A run in the middle of its work."""
    run = wait(site)
    begin(site, run.run_id)
    move(site, run.run_id, State.RUNNING, device="cpu")
    curve = [
        {"event": "metric", "name": "train_loss", "value": 2.0 / (step + 2), "step": step}
        for step in range(20)
    ]
    warning = {"event": "log", "level": "warning", "message": "3 torn files were left out."}
    progress = {"event": "progress", "current": 1200, "total": 3000, "eta_s": 95.0}
    site.say(
        run, 0, {"event": "status", "phase": "fitting", "step": "fitting a model"}, *curve, warning, progress
    )
    return run


def finished(site: Site) -> Run:
    return scored(site)


def of_many_long_labels(site: Site) -> Run:
    return scored(site, targets=long_labels(30))


def numbers(site: Site) -> Run:
    return scored(site, "continuous", [1.0, 4.0, 9.5], annotation_type="slider")


def failed(site: Site) -> Run:
    reason = f"Schema 'sentiment' has 1 distinct label(s) in the data: {'unbroken' * 30}"
    return fail(site, reason, error_evidence=LONG_EVIDENCE)


def waiting(site: Site) -> Run:
    wait(site)
    return wait(site)


@pytest.mark.parametrize("make", [finished, of_many_long_labels, numbers, failed, working, waiting])
def test_nothing_keeps_people_out_or_overflows(site, make: Callable[[Site], Run]) -> None:
    made = site()
    page = made.open(make(made))
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (size, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], size


def test_a_run_under_way_moves_by_itself_and_its_end_takes_its_place(site) -> None:
    made = site()
    run = working(made)
    page = made.open(run)
    step = page.locator('[data-part="step"]')
    expect(step).to_have_text("fitting a model")
    expect(page.locator("#log")).to_contain_text("train_loss = 0.1 (step 18)")
    expect(page.locator("#curves-drawn svg")).to_have_count(1)

    said = {"event": "metric", "name": "train_accuracy"}
    more = [{**said, "value": step / 10, "step": step} for step in range(5)]
    made.say(run, 23, {"event": "status", "phase": "predicting", "step": "predicting 28 items"}, *more)
    expect(step).to_have_text("predicting 28 items")
    expect(page.locator("#curves-drawn svg")).to_have_count(2)
    expect(page.locator("#log")).to_contain_text("train_accuracy = 0.4 (step 4)")

    move(made, run.run_id, State.ERROR, error="It broke.", error_next_step="Mend it.")
    expect(page.locator(".notice.error")).to_contain_text("It failed: It broke.")
    expect(page.locator("#said")).to_have_text("The run has ended: error.")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    assert "running" not in page.locator("main").inner_text()
    expect(page.locator("#curves-drawn svg")).to_have_count(2)


def test_each_line_of_the_log_is_there_once_and_in_order(site) -> None:
    made = site()
    run = working(made)
    page = made.open(run)
    for number in range(10):
        made.say(run, 23 + number, {"event": "log", "level": "info", "message": f"line {number}."})
    expect(page.locator("#log")).to_contain_text("line 9.")
    lines = [line.split("Z ", 1)[1] for line in page.locator("#log").inner_text().splitlines() if line]
    assert [line for line in lines if line.startswith("line")] == [f"line {n}." for n in range(10)]
    assert lines.count("fitting a model") == 1


def test_what_the_stream_brings_is_not_asked_for_again(site) -> None:
    made = site()
    run = working(made)
    page = made.open(run)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    expect(page.locator("#curves-drawn svg")).to_have_count(1)
    for number in range(6):
        made.say(run, 23 + number, {"event": "status", "phase": "fitting", "step": f"step {number}"})
        expect(page.locator('[data-part="step"]')).to_have_text(f"step {number}")
    expect(page.locator("#log")).to_contain_text("step 5")
    assert len([url for url in asked if "/events?" in url]) <= 2


def test_a_run_is_cancelled_by_keyboard(site) -> None:
    made = site()
    run = working(made)
    page = made.open(run)
    button = page.get_by_role("button", name="Cancel run")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Press again to cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".status")).to_have_text("cancelling")
    expect(button).to_have_count(0)
    move(made, run.run_id, State.CANCELLED)
    expect(page.locator("main")).to_contain_text("It was cancelled.")


def test_a_waiting_run_that_is_cancelled_shows_its_end(site) -> None:
    made = site()
    page = made.open(waiting(made))
    expect(page.locator(".status")).to_have_text("waiting #2")
    page.get_by_role("button", name="Cancel run").press("Enter")
    page.get_by_role("button", name="Press again to cancel").press("Enter")
    expect(page.locator("main")).to_contain_text("It was cancelled.")


def test_pre_labels_are_withdrawn_at_the_second_press(site) -> None:
    made = site()
    run = finished(made)
    page = made.open(run)
    button = page.get_by_role("button", name="Withdraw pre-labels")
    button.press("Enter")
    page.get_by_role("button", name="Press again to withdraw").press("Escape")
    expect(button).to_be_visible()
    button.press("Enter")
    page.get_by_role("button", name="Press again to withdraw").press("Enter")
    expect(page.locator("main")).to_contain_text("none of its predictions is stored any more")
    assert list(made.reader.predictions(run.run_id)) == []


def test_pre_labels_that_are_gone_are_told_of_when_the_page_cannot_be_drawn_anew(site) -> None:
    made = site()
    run = finished(made)
    page = made.open(run)
    page.route("**/admin/training/runs/*", lambda route: route.abort())
    button = page.locator("#withdraw")
    for _ in range(2):
        button.press("Enter")
    expect(page.locator("#withdraw-problem")).to_contain_text("pre-labels were withdrawn.")
    expect(page.locator("#withdraw-problem")).to_contain_text("load it again")
    expect(button).to_have_attribute("aria-disabled", "true")
    assert list(made.reader.predictions(run.run_id)) == []


def test_a_withdrawal_is_given_its_whole_time_to_be_thought_over_again(site) -> None:
    made = site()
    page = made.open("/health")
    page.clock.install()
    page.goto(f"/admin/training/runs/{finished(made).run_id}")
    page.get_by_role("button", name="Withdraw pre-labels").press("Enter")
    sure = page.get_by_role("button", name="Press again to withdraw")
    sure.press("Escape")
    page.clock.run_for(5_500)
    page.get_by_role("button", name="Withdraw pre-labels").press("Enter")
    page.clock.run_for(1_000)
    assert sure.is_visible()


def test_the_curves_of_a_long_run_that_has_ended_have_no_end_before_its_own(site) -> None:
    made = site()
    run = wait(made)
    begin(made, run.run_id)
    move(made, run.run_id, State.RUNNING)
    steps = 20_500
    made.say(run, 0, *({"event": "metric", "name": "loss", "value": 1.0, "step": n} for n in range(steps)))
    move(made, run.run_id, State.ERROR, error="It broke.")
    page = made.open(run)
    expect(page.locator("#curves-drawn")).to_contain_text("20,500 steps")


def test_a_run_that_begins_again_waits_without_a_time_and_draws_new_curves(site) -> None:
    made = site()
    run = wait(made)
    begin(made, run.run_id)
    loss = [{"event": "metric", "name": "loss", "value": 1.0, "step": step} for step in range(3)]
    made.say(run, 0, *loss)
    page = made.open(run)
    expect(page.locator('[data-part="elapsed"]')).to_contain_text("for ")
    expect(page.locator("#curves-drawn")).to_contain_text("3 steps")
    move(made, run.run_id, State.QUEUED)
    expect(page.locator('[data-part="elapsed"]')).to_have_text("")
    begin(made, run.run_id)
    made.say(run, 0, *loss[:2], attempt=made.reader.run(run.run_id).attempt)
    expect(page.locator("#curves-drawn")).to_contain_text("2 steps")


def test_a_run_that_begins_again_leaves_what_it_said_before_behind(site) -> None:
    made = site()
    run = wait(made)
    begin(made, run.run_id)
    made.say(run, 0, {"event": "log", "level": "warning", "message": "3 torn files were left out."})
    page = made.open(run)
    warnings, reported = page.locator("#warnings"), page.locator("#reported")
    accuracy = {"event": "metric", "name": "train_accuracy", "value": 0.5}
    made.say(run, 1, {"event": "log", "level": "warning", "message": "It is slow."}, accuracy)
    expect(warnings.locator("li")).to_have_text(["3 torn files were left out.", "It is slow."])
    expect(reported).to_contain_text("train_accuracy")
    move(made, run.run_id, State.QUEUED)
    expect(warnings).to_be_hidden()
    expect(reported).to_be_hidden()
    expect(page.get_by_role("button", name="Cancel run")).to_be_visible()
    begin(made, run.run_id)
    made.say(run, 0, {"event": "log", "level": "warning", "message": "It is slow."}, attempt=2)
    expect(warnings.locator("li")).to_have_text(["It is slow."])
    expect(warnings.locator(".notice:visible")).to_have_count(1)


def test_a_run_that_is_only_written_back_cannot_be_cancelled(site) -> None:
    made = site()
    run = working(made)
    page = made.open(run)
    page.get_by_role("button", name="Cancel run").focus()
    move(made, run.run_id, State.FINISHING)
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    expect(page.locator("#title")).to_be_focused()
    page.reload()
    expect(page.locator(".status")).to_have_text("finishing")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)


def test_every_picture_is_drawn_and_follows_the_readers_mode(site) -> None:
    made = site()
    page = made.open(finished(made), scheme="dark")
    pictures = page.locator(".picture img")
    expect(pictures).to_have_count(5)
    for picture in pictures.all():
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") >= 390
    # The margin of a picture, which is paper.
    margin = (
        "(image) => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 20;"
        " const to = canvas.getContext('2d'); to.drawImage(image, 0, -30);"
        " return [...to.getImageData(5, 5, 1, 1).data].slice(0, 3) }"
    )
    assert max(pictures.first.evaluate(margin)) < 60
    page.emulate_media(color_scheme="light")
    assert min(pictures.first.evaluate(margin)) > 240


def test_a_wide_matrix_scrolls_in_its_own_box_by_keyboard(site) -> None:
    made = site()
    page = made.open(of_many_long_labels(made), size=NARROW)
    box = page.locator(".picture.wide").first
    box.scroll_into_view_if_needed()
    assert box.locator("img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 390
    box.evaluate("(box) => box.addEventListener('scroll', () => { box.dataset.moved = 'yes' })")
    box.focus()
    page.keyboard.press("ArrowRight")
    expect(box).to_have_attribute("data-moved", "yes")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_a_server_that_is_gone_is_told_of_and_nothing_is_made_up(site) -> None:
    made = site()
    page = made.open(working(made))
    expect(page.locator('[data-part="step"]')).to_have_text("fitting a model")
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('pagehide')); window.dispatchEvent(new Event('pageshow'))")
    expect(page.locator("#connection")).to_contain_text("Connection lost")
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_text("")


@pytest.mark.ray
def test_a_real_run_has_its_pictures_and_the_annotators_answers(
    make_project: MakeProject, open_session: OpenSession, browser: Browser
) -> None:
    config = make_project()
    session = open_session(config)
    run = ended(config, start(session, "sklearn-text"))
    session.close()
    with ExitStack() as stack:
        made = Site(config, browser, stack)
        page = made.open(run)
        expect(page.locator(".picture img")).to_have_count(4)
        expect(page.locator(".mistake").first).to_contain_text("annotator_")
        assert violations(page) == []
        assert (folder_of(made, run.run_id) / "answers.jsonl").stat().st_mode & 0o077 == 0


def test_every_parameter_can_be_read_to_its_end_at_390_px(site) -> None:
    made = site()
    run = scored(made)
    params = {"vectorizer": "sklearn.feature_extraction.text.TfidfVectorizer", "vectorizer_kwargs": {}}
    (folder_of(made, run.run_id) / "spec.json").write_text(json.dumps({"v": 1, "params": params}), "utf-8")
    page = made.open(run, size=NARROW)
    for cell in page.locator(".params tbody tr > *").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= NARROW["width"]
    assert page.locator(".params th", has_text="vectorizer_kwargs").evaluate(LINES) == 1


def test_the_name_of_a_file_is_one_line_where_there_is_room(site) -> None:
    made = site()
    run = scored(made)
    (folder_of(made, run.run_id) / "artifacts" / f"adapter_model_{'x' * 40}.safetensors").write_text("{}")
    assert made.open(run).get_by_role("link", name="adapter_model").evaluate(LINES) == 1


def test_a_line_beneath_the_title_neither_begins_nor_ends_with_a_dot(site) -> None:
    made = site()
    page = made.open(scored(made), size=NARROW)
    line = page.locator(".run-line")
    assert line.evaluate(LINES) > 1
    left = "(each) => each.getBoundingClientRect().left"
    firsts = line.locator("span").filter(has_text=re.compile("^local$|train"))
    # The dot of what begins a line stands in the margin, which is cut off.
    assert {each.evaluate(left) for each in firsts.all()} == {line.evaluate(left)}
    assert line.evaluate(left) < page.locator("h1").evaluate(left)
    assert "inset(0px 0px 0px" in line.evaluate("(each) => getComputedStyle(each).clipPath")


def test_the_time_of_a_run_stays_in_one_line_of_the_table(site) -> None:
    made = site()
    scored(made)
    page = made.open(locale="en-US")
    assert page.locator(".runs time").inner_text().endswith("M")
    # The page may put a new row in the place of this one: it is found and measured in one breath.
    assert page.evaluate(f"({LINES})(document.querySelector('.runs time'))") == 1


def test_the_times_on_the_page_of_a_run_say_their_zone(site) -> None:
    made = site()
    page = made.open(scored(made), locale="en-US", timezone_id="Asia/Tokyo")
    expect(page.locator("dt:text-is('Ended') + dd time")).to_have_text(
        re.compile(r":\d\d:\d\d\s[AP]M GMT\+9$")
    )
