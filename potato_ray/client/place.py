"""Where a server is, and the key that opens it."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

import httpx

from potato_ray.client.failures import ClientError, KeyInTheClear
from potato_ray.loopback import is_this_machine


class Key:
    """The admin key, which is sent in UTF-8. Nothing that prints a Key shows it."""

    def __init__(self, value: str) -> None:
        try:
            # As the server does: bytes of the environment that are no UTF-8 stay what they are.
            self._value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise _unusable() from None
        if _CONTROL.search(self._value):
            raise _unusable()

    def __repr__(self) -> str:
        return "Key(...)"

    def header(self) -> dict[str, bytes]:
        return {"X-API-Key": self._value}


_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def _unusable() -> ClientError:
    return ClientError(
        "The admin key has characters that no HTTP header can carry.",
        code="key_unusable",
        next_step="Use a key without line breaks and other control characters.",
    )


@dataclass(frozen=True)
class Place:
    """A server: `url` without a slash at its end and without user or password."""

    url: str
    key: Key | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, api_key: str | None) -> Place:
        """Check an address. Warns when the key would go over plain http to another machine."""
        try:
            parsed = httpx.URL(url.strip())
            parsed = parsed.copy_with(username=None, password=None, query=None, fragment=None)
        except (httpx.InvalidURL, TypeError, ValueError):
            parsed = httpx.URL("")
        known = parsed.scheme in ("http", "https") and parsed.host and (parsed.port or 0) < 65536
        if not known:
            raise ClientError(
                "This is no address of a server.",
                code="bad_url",
                next_step="Write it as http://127.0.0.1:8000 or https://potato.example.org.",
            )
        key = Key(api_key.strip()) if api_key and api_key.strip() else None
        place = cls(str(parsed).rstrip("/"), key)
        if key is not None and parsed.scheme == "http" and not place.is_loopback:
            warnings.warn(_in_the_clear(parsed.host), KeyInTheClear, stacklevel=3)
        return place

    @property
    def is_loopback(self) -> bool:
        return is_this_machine(httpx.URL(self.url).host)


def _in_the_clear(host: str) -> str:
    return (
        f"The admin key goes over plain http to {host}, where everybody on the way can read it. "
        "Use https, or an ssh tunnel to the server's machine and http://127.0.0.1."
    )
