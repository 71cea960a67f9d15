"""The fields of a trainer's parameters in a real browser: what they send, and what is said at them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from browser import NARROW, WIDE, Site, chromium, press_start, tab_to, violations
from many_params import Absent, ManyParams
from playwright.sync_api import Browser, Locator, Page, expect

from potato_ray.trainers import registry

LAB = {"lab": {"type": "ssh", "host": "gpu.example.org"}}
SIZES = (390, 640, 800, 1100, 1280)
NAME = "many-params"
SWITCHES = "[data-switch]:not(:checked)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(autouse=True)
def trainers(monkeypatch: pytest.MonkeyPatch) -> None:
    for trainer in (ManyParams, Absent):
        monkeypatch.setitem(registry._registered, trainer.name, trainer)


@pytest.fixture
def site(make_project: Callable[..., Any], browser: Browser) -> Iterator[Callable[..., Site]]:
    """Makes a project with these parameters configured for the trainer of the tests."""
    with ExitStack() as stack:

        def make(**configured: Any) -> Site:
            trainer_params = {NAME: configured} if configured else {}
            made = make_project("review-sentiment", backends=LAB, trainer_params=trainer_params)
            return Site(made, browser, stack)

        yield make


def form(site: Site, trainer: str = NAME) -> Page:
    page = site.open()
    expect(page.get_by_role("button", name="Start run")).to_be_enabled()
    page.locator("#trainer").select_option(trainer)
    return page


def field(page: Page, name: str) -> Locator:
    return page.locator(f"#{NAME}--{name.replace('.', '--')}")


def unfold(page: Page, words: str) -> None:
    shown(page).locator("details > summary").filter(has_text=words).click()


def shown(page: Page) -> Locator:
    """The part of the form that belongs to the chosen trainer; other trainers have a lora, too."""
    return page.locator("fieldset:not([hidden])").filter(has=page.locator(f"[id^='{NAME}--']"))


def started(site: Site, page: Page) -> Any:
    """The parameters of a run that is started now."""
    with page.expect_response("**/admin/training/api/runs") as answer:
        press_start(page)
    run_id = answer.value.json()["run_id"]
    expect(page.locator("#start-said a")).to_have_attribute("href", re.compile(run_id))
    return site.reader.run(run_id).params


def test_what_is_left_as_it_is_sends_nothing(site) -> None:
    made = site(lora={"r": 8}, learning_rate=0.5)
    assert started(made, form(made)) == {}


def test_every_type_of_parameter_has_a_control_that_sends_its_value(site) -> None:
    made = site()
    page = form(made)
    field(page, "model_name").fill("some/model")
    field(page, "epochs").fill("7")
    field(page, "learning_rate").fill("2e-5")
    field(page, "head").select_option("tree")
    field(page, "class_path").fill("sklearn.svm.SVC")
    field(page, "calibrate").uncheck()
    page.get_by_label("rdkit").check()
    unfold(page, "Parameters of stops")
    field(page, "stops.after").fill("5")
    unfold(page, "Advanced parameters")
    field(page, "extra").fill('{"C": 2.0}')
    assert started(made, page) == {
        "model_name": "some/model",
        "epochs": 7,
        "learning_rate": 2e-5,
        "head": "tree",
        "class_path": "sklearn.svm.SVC",
        "calibrate": False,
        "features": ["morgan", "rdkit"],
        "stops": {"after": 5},
        "extra": {"C": 2},
    }


def test_a_switch_alone_is_true_and_its_members_make_it_a_mapping(site) -> None:
    made = site()
    page = form(made)
    assert shown(page).get_by_text("Parameters of lora").is_hidden()
    page.get_by_role("switch", name="lora").check()
    assert started(made, page) == {"lora": True}
    unfold(page, "Parameters of lora")
    field(page, "lora.r").fill("8")
    field(page, "lora.targets").fill("query, value")
    field(page, "lora.quantize").select_option("4bit")
    field(page, "lora.merge").uncheck()
    sent = {"r": 8, "targets": ["query", "value"], "quantize": "4bit", "merge": False}
    assert started(made, page) == {"lora": sent}
    page.get_by_role("switch", name="lora").uncheck()
    assert started(made, page) == {}


def test_what_is_filled_in_is_added_to_the_mapping_that_is_configured(site) -> None:
    made = site(lora={"r": 8, "targets": ["query"]})
    page = form(made)
    knob = page.get_by_role("switch", name="lora")
    expect(knob).to_be_checked()
    unfold(page, "Parameters of lora")
    expect(field(page, "lora.r")).to_have_attribute("placeholder", "8")
    expect(field(page, "lora.targets")).to_have_attribute("placeholder", "query")
    field(page, "lora.alpha").fill("64")
    assert started(made, page) == {"lora": {"r": 8, "targets": ["query"], "alpha": 64}}
    page.get_by_label("Leave targets out").check()
    expect(field(page, "lora.targets")).to_be_disabled()
    assert started(made, page) == {"lora": {"r": 8, "targets": None, "alpha": 64}}
    knob.uncheck()
    assert started(made, page) == {"lora": False}
    page.get_by_label("Leave lora out").check()
    assert started(made, page) == {"lora": None}


def test_what_is_configured_can_be_left_out_where_that_is_allowed(site) -> None:
    made = site(learning_rate=0.5, head="tree")
    page = form(made)
    page.get_by_label("Leave learning_rate out").check()
    field(page, "head").select_option("left out")
    assert page.get_by_label("Leave epochs out").count() == 0
    assert started(made, page) == {"learning_rate": None, "head": None}


def test_an_optional_parameter_says_that_it_is_left_out(site) -> None:
    page = form(site())
    expect(field(page, "learning_rate")).to_have_attribute("placeholder", "left out")
    expect(field(page, "head").locator("option").first).to_have_text("default: left out")


WRONG = [
    ("epochs", "0", "Write 1 or more."),
    ("lora.dropout", "2", "Write 1 or less."),
    ("extra", "[1]", "Write a JSON object"),
    ("class_path", "os.System", "class_path must come from sklearn"),
    ("wide.width", "0", "Write 1 or more."),
]


@pytest.mark.parametrize(("name", "written", "said"), WRONG)
def test_what_is_wrong_is_said_at_its_own_field_which_is_unfolded(
    site, name: str, written: str, said: str
) -> None:
    page = form(site())
    for knob in ("lora", "wide"):
        page.locator(f"#{NAME}--{knob}").evaluate("(knob) => knob.click()")
    control = field(page, name)
    control.evaluate("(control, value) => { control.value = value }", written)
    press_start(page)
    expect(control).to_be_focused()
    expect(control).to_have_attribute("aria-invalid", "true")
    expect(control).to_have_accessible_description(re.compile(re.escape(said)))
    assert violations(page) == []


def test_all_that_the_server_finds_wrong_is_said_each_at_its_field(site) -> None:
    page = form(site())
    field(page, "class_path").fill("os.System")
    field(page, "lora").check()
    unfold(page, "Parameters of lora")
    # A member that is out of range for the server alone.
    field(page, "lora.r").evaluate("(control) => { control.max = ''; control.value = '5000' }")
    press_start(page)
    expect(page.locator(".field-error")).to_have_count(2)
    expect(field(page, "lora.r")).to_have_accessible_description(re.compile("lora.r must be 1024 or less"))
    expect(field(page, "class_path")).to_have_accessible_description(re.compile("must come from sklearn"))


def test_what_is_wrong_with_an_argument_is_said_at_the_field_that_holds_it(site) -> None:
    page = form(site())
    unfold(page, "Advanced parameters")
    field(page, "extra").fill('{"epochs": 3}')
    press_start(page)
    said = re.compile(r"extra: epochs is none of its arguments")
    expect(field(page, "extra")).to_have_accessible_description(said)
    expect(page.locator(".field-error")).to_have_count(1)


def test_no_tick_at_all_is_said_at_the_ticks_until_one_is_made(site) -> None:
    page = form(site())
    page.get_by_label("morgan").uncheck()
    press_start(page)
    expect(page.get_by_text("Tick at least one.")).to_be_visible()
    page.get_by_label("rdkit").check()
    expect(page.locator(".field-error")).to_have_count(0)


def test_what_was_wrong_with_a_field_is_gone_once_that_field_is_changed(site) -> None:
    page = form(site())
    field(page, "lora").check()
    unfold(page, "Parameters of lora")
    for name in ("epochs", "lora.r"):
        field(page, name).fill("0")
    press_start(page)
    expect(page.locator(".field-error")).to_have_count(2)
    field(page, "epochs").fill("")
    expect(field(page, "epochs")).not_to_have_attribute("aria-invalid", "true")
    expect(field(page, "epochs")).to_have_attribute("aria-describedby", f"{NAME}--epochs--hint")
    expect(field(page, "lora.r")).to_have_attribute("aria-invalid", "true")
    field(page, "lora.r").fill("8")
    expect(page.locator(".field-error")).to_have_count(0)


def test_a_switch_and_its_members_are_reached_by_keyboard(site) -> None:
    made = site()
    page = form(made)
    page.locator("#trainer").focus()
    tab_to(page, "lora")
    page.keyboard.press("Space")
    tab_to(page, "Parameters of lora")
    page.keyboard.press("Enter")
    tab_to(page, "r")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    expect(page.locator("#start-said")).to_contain_text("Started.")
    assert made.runs()[0].params == {"lora": {"r": 4}}


def test_fields_keep_nobody_out_and_overflow_no_screen(site) -> None:
    page = form(site(learning_rate=0.5))
    page.evaluate(f"document.querySelectorAll('{SWITCHES}').forEach((knob) => knob.click())")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true })")
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (size, scheme)
    for width in SIZES:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_trainer_without_its_packages_is_shown_with_the_line_that_installs_them(site) -> None:
    made = site()
    page = form(made, Absent.name)
    notice = page.locator('[data-missing="absent"]')
    expect(notice).to_contain_text(f"absent cannot run on local: {sys.executable} lacks no-such-package.")
    line = f"{sys.executable} -m pip install no-such-package"
    expect(notice.locator("pre")).to_have_text(line)
    button = page.get_by_role("button", name="Start run")
    expect(button).to_have_attribute("aria-disabled", "true")
    button.press("Enter")
    expect(notice).to_be_focused()
    assert made.runs() == []
    page.set_viewport_size(NARROW)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_the_line_that_installs_is_copied_by_a_button(site) -> None:
    page = form(site(), Absent.name)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").endswith("-m pip install no-such-package")


def test_without_a_clipboard_the_line_is_marked(site) -> None:
    page = form(site(), Absent.name)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy").press("Enter")
    expect(page.get_by_role("button", name="Marked")).to_be_visible()
    assert page.evaluate("getSelection().toString()").endswith("pip install no-such-package")


def test_it_can_be_started_on_a_backend_that_has_a_python_of_its_own(site) -> None:
    made = site()
    page = form(made, Absent.name)
    page.locator("#backend").select_option("lab")
    expect(page.locator('[data-missing="absent"]')).to_contain_text("which needs no-such-package")
    press_start(page)
    expect(page.locator("#start-said")).to_contain_text("Started.")
    assert [run.backend for run in made.runs()] == ["lab"]
