"""What validation says of a webhook: warnings for what it cannot know for sure, and never its address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from potato_ray.config import Validation

Validate = Callable[[str], Validation]


def test_a_secret_that_is_not_in_the_environment_is_warned_of(
    check_training: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    found = check_training("  notify: {url: 'https://example.org/', secret_env: HOOK_SECRET}")
    assert [(each.level, each.code) for each in found.findings] == [("warning", "secret_missing")]
    assert "HOOK_SECRET is not set here" in found.findings[0].text
    monkeypatch.setenv("HOOK_SECRET", "hush")
    assert check_training("  notify: {url: 'https://example.org/', secret_env: HOOK_SECRET}").findings == ()


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "localhost.example.org"])
def test_http_to_another_machine_is_warned_of(check_training: Validate, host: str) -> None:
    found = check_training(f"  notify: {{url: 'http://{host}:9000/hook'}}")
    assert [(each.level, each.code) for each in found.findings] == [("warning", "not_encrypted")]
    assert found.findings[0].key == "model_training.notify.url"


@pytest.mark.parametrize("url", ["ftp://me:hush@example.org", "https://me:hush@example.org:0", "me:hush"])
def test_a_wrong_address_is_not_repeated(check_training: Validate, url: str) -> None:
    found = check_training(f"  notify: {{url: '{url}'}}")
    assert found.errors
    assert "hush" not in found.as_text()


def test_an_address_is_not_in_the_text_of_the_configuration(check_training: Validate) -> None:
    config = check_training("  notify: {url: 'https://me:hush@example.org/hush'}").require()
    assert config.model_training.notify is not None
    assert "hush" not in repr(config)
