"""docs/notify.md against the code: every key, every pause, and the example that verifies a signature."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from potato_ray import webhook
from potato_ray.registry.notices import facts_of
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

DOCS = (Path(__file__).parents[2] / "docs" / "notify.md").read_text("utf-8")
RUN = Run("r", "demo", "t", ("s",), ("nominal",), {}, "local", State.ERROR, 1, "cli", 0.0)

Verify = Callable[..., bool]


@pytest.fixture
def is_genuine() -> Verify:
    """The function of the example."""
    example = re.search(r"```python\n(.*?)```", DOCS, re.DOTALL)
    assert example is not None
    names: dict[str, Verify] = {}
    exec(compile(example.group(1), "docs/notify.md", "exec"), names)  # noqa: S102 - our own page
    return names["is_genuine"]


def signed(sent_at: float, secret: str) -> tuple[str, bytes]:
    told = webhook.message(facts_of(RUN), "id", None, sent_at, secret)
    return told.headers[webhook.SIGNATURE_HEADER], told.body


def test_the_example_takes_what_is_genuine(is_genuine: Verify) -> None:
    header, body = signed(time.time(), "hush")
    assert is_genuine(header, body, "hush")


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(lambda header, body: (header, body + b" "), id="another body"),
        pytest.param(lambda header, body: (header.replace("t=", "t=1"), body), id="another time"),
        pytest.param(lambda header, body: ("", body), id="no signature"),
        pytest.param(lambda header, body: ("t=1,v1=ä", body), id="nonsense"),
        pytest.param(lambda header, body: signed(time.time(), "guess"), id="another secret"),
        pytest.param(lambda header, body: signed(time.time() - 301, "hush"), id="old"),
    ],
)
def test_the_example_refuses_what_is_not(
    is_genuine: Verify, forged: Callable[[str, bytes], tuple[str, bytes]]
) -> None:
    header, body = forged(*signed(time.time(), "hush"))
    assert not is_genuine(header, body, "hush")


def test_every_key_is_documented_and_no_other() -> None:
    rows = re.search(r"\| key \| value \|\n(.*?)\n\n", DOCS, re.DOTALL)
    assert rows is not None
    documented = re.findall(r"^\| `(\w+)` \|", rows.group(1), re.MULTILINE)
    assert sorted(documented) == sorted(["event", "delivery_id", *facts_of(RUN), "url", "sent_at"])


def test_the_pauses_and_the_headers_are_documented() -> None:
    factors = {"s": 1, "min": 60, "h": 3600}
    sentence = re.search(r"The pauses are (.*?);", DOCS, re.DOTALL)
    assert sentence is not None
    pauses = [
        int(number) * factors[unit] for number, unit in re.findall(r"(\d+) (s|min|h)\b", sentence.group(1))
    ]
    assert tuple(pauses) == webhook.PAUSES_S
    assert f"{webhook.SIGNATURE_HEADER}: t=" in DOCS
    assert f"`{webhook.DELIVERY_HEADER}`" in DOCS
