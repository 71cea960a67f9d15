"""What a webhook's request holds, how it is signed, what an answer means, and when it is tried again."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from potato_ray import webhook
from potato_ray.webhook import GIVE_UP_AFTER_S, PAUSES_S, answer_of, message, next_try_at, shown, signature

NOW = 1_795_955_098.5
FACTS = {"run_id": "r", "project": "Gefühle \ud800", "headline": None}


def test_a_message_is_the_facts_and_what_belongs_to_its_sending() -> None:
    told = message(FACTS, "id-1", "http://127.0.0.1:8000/admin/training/runs/r", NOW, None)
    assert json.loads(told.body) == {
        "event": "run.ended",
        "delivery_id": "id-1",
        **FACTS,
        "url": "http://127.0.0.1:8000/admin/training/runs/r",
        "sent_at": NOW,
    }
    assert told.headers["Potato-Ray-Delivery"] == "id-1"
    assert told.headers["Content-Type"] == "application/json"
    assert webhook.SIGNATURE_HEADER not in told.headers


def test_the_signature_covers_the_time_and_the_body() -> None:
    told = message(FACTS, "id-1", None, NOW, "hush")
    signed = b"1795955098." + told.body
    expected = hmac.new(b"hush", signed, hashlib.sha256).hexdigest()
    assert told.headers["Potato-Ray-Signature"] == f"t=1795955098,v1={expected}"


@pytest.mark.parametrize("secret", ["ä secret", "\udcff\udcfe"], ids=["text", "bytes that are no text"])
def test_a_secret_counts_as_the_bytes_that_the_environment_holds(secret: str) -> None:
    raw = secret.encode("utf-8", "surrogateescape")
    assert signature(secret, 7, b"x").endswith(hmac.new(raw, b"7.x", hashlib.sha256).hexdigest())


@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_2xx_is_a_delivery(status: int) -> None:
    assert answer_of(status, None, NOW).delivered


def test_a_410_is_the_end() -> None:
    answer = answer_of(410, "5", NOW)
    assert (answer.delivered, answer.final) == (False, True)


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_anything_else_is_tried_again(status: int) -> None:
    answer = answer_of(status, None, NOW)
    assert (answer.delivered, answer.final) == (False, False)
    assert str(status) in answer.said


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        (format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True), pytest.approx(90.0, abs=1.0)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("9" * 400, 1e9),
        ("-5", None),
        ("soon", None),
        ("٣", None),
        ("Thu, 01 Jan 99999 00:00:00 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert answer_of(503, header, NOW).retry_after_s == seconds


def test_pauses_grow_and_all_tries_fall_into_a_day() -> None:
    assert list(PAUSES_S) == sorted(PAUSES_S)
    at = NOW
    for tries, pause in enumerate(PAUSES_S, start=1):
        planned = next_try_at(NOW, tries, at, None)
        assert planned == at + pause
        at = planned + webhook.TIMEOUT_S
    assert NOW + 20 * 3600 < at <= NOW + GIVE_UP_AFTER_S
    assert next_try_at(NOW, len(PAUSES_S) + 1, at, None) is None


def test_a_receiver_may_ask_for_more_time_but_not_for_more_than_a_day() -> None:
    assert next_try_at(NOW, 1, NOW, 300.0) == NOW + 300.0
    assert next_try_at(NOW, 4, NOW, 1.0) == NOW + 600.0
    assert next_try_at(NOW, 1, NOW, GIVE_UP_AFTER_S + 1) is None


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://me:hush@hooks.example.org:8443/hush?hush=1#hush", "https://hooks.example.org:8443"),
        ("http://[::1]:9000/x", "http://[::1]:9000"),
        ("https://Example.ORG", "https://example.org"),
    ],
)
def test_only_the_place_of_an_address_is_shown(url: str, place: str) -> None:
    assert shown(url) == place
