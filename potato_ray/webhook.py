"""The webhook of `model_training.notify`: what is sent, how it is signed, and what an answer means."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import potato_ray

EVENT = "run.ended"
DELIVERY_HEADER = "Potato-Ray-Delivery"
SIGNATURE_HEADER = "Potato-Ray-Signature"
TIMEOUT_S = 10.0
"""For the whole of one try, from the look-up of the name to the answer's status."""

PAUSES_S = (5.0, 30.0, 120.0, 600.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0)
"""After the first failed try, the second, ..."""

GIVE_UP_AFTER_S = 24 * 3600.0
"""No try is planned for later than this after the run's end."""

_MAX_DIGITS = 9


@dataclass(frozen=True)
class Message:
    """One request: a delivery's body and the headers that go with it."""

    body: bytes
    headers: Mapping[str, str]


def message(
    facts: Mapping[str, Any], delivery_id: str, page: str | None, sent_at: float, secret: str | None
) -> Message:
    """The request that tells `facts` of an ended run; unsigned without a secret.

    `page` is the address of the run's page, None where no server is known. `sent_at`: epoch seconds UTC.
    """
    told = {"event": EVENT, "delivery_id": delivery_id, **facts, "url": page, "sent_at": sent_at}
    body = json.dumps(told).encode("ascii")
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"potato-ray/{potato_ray.__version__}",
        DELIVERY_HEADER: delivery_id,
    }
    if secret:
        headers[SIGNATURE_HEADER] = signature(secret, int(sent_at), body)
    return Message(body, headers)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """`t=<timestamp>,v1=<hex>`: HMAC-SHA256 over `<timestamp>.<body>`; an old body gets no new time."""
    signed = f"{timestamp}.".encode("ascii") + body
    # A secret of the environment may hold bytes that are no UTF-8; they count as they are.
    key = secret.encode("utf-8", "surrogateescape")
    return f"t={timestamp},v1={hmac.new(key, signed, hashlib.sha256).hexdigest()}"


@dataclass(frozen=True)
class Answer:
    """How one try ended. `said` completes "the receiver ..."; `final`: it must not be tried again."""

    delivered: bool
    said: str
    final: bool = False
    retry_after_s: float | None = None


def answer_of(status: int, retry_after: str | None, now: float) -> Answer:
    """What the receiver's status and its Retry-After header mean."""
    said = f"answered {status}"
    if 200 <= status < 300:
        return Answer(True, said, final=True)
    if status == 410:
        return Answer(False, f"{said}, which asks for no more", final=True)
    if 300 <= status < 400:
        said += ", and redirects are not followed"
    return Answer(False, said, retry_after_s=_seconds(retry_after, now))


def _seconds(retry_after: str | None, now: float) -> float | None:
    """A Retry-After header, which holds seconds or a date."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MAX_DIGITS else float(10**_MAX_DIGITS)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def next_try_at(created_at: float, tries: int, now: float, retry_after_s: float | None) -> float | None:
    """When to try again after `tries` failed ones; None: give up. All times are epoch seconds UTC."""
    if tries > len(PAUSES_S):
        return None
    at = now + max(PAUSES_S[tries - 1], retry_after_s or 0.0)
    return at if at <= created_at + GIVE_UP_AFTER_S else None


def shown(url: str) -> str:
    """The part of the address that may be shown: user, path and query may hold secrets."""
    address = urlsplit(url)
    host = address.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{address.scheme}://{host}" + (f":{address.port}" if address.port else "")
