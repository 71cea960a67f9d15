"""Which GPU a job gets on an agent's machine."""

from __future__ import annotations

from typing import Any

import pytest

from potato_ray.agent.card_choice import check_cards, with_card
from potato_ray.agent.launching import NotLaunched

CARDS = [
    {"uuid": "GPU-1", "free_mb": 4000},
    {"uuid": "GPU-2", "free_mb": 30000},
    {"uuid": "GPU-3", "free_mb": None},
]


@pytest.fixture(autouse=True)
def nobody_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def chosen(cards: list[dict[str, Any]], **limits: Any) -> Any:
    spec = {"run_id": "r", "limits": {"device": "auto", "gpu_uuids": None, **limits}}
    return with_card(spec, lambda: cards)["limits"]["gpu_uuids"]


def test_a_job_gets_the_card_with_the_most_free_memory() -> None:
    assert chosen(CARDS) == ["GPU-2"]


@pytest.mark.parametrize("cards", [[], CARDS[2:]])
def test_without_a_card_that_is_known_to_have_memory_nothing_is_chosen(cards: list[dict[str, Any]]) -> None:
    assert chosen(cards) is None


@pytest.mark.parametrize("device", ["cpu", "cuda:1", "mps"])
def test_a_job_that_says_its_device_keeps_it(device: str) -> None:
    assert chosen(CARDS, device=device) is None


def test_what_the_server_has_chosen_stays() -> None:
    assert chosen(CARDS, gpu_uuids=["GPU-1"]) == ["GPU-1"]


def test_whoever_started_the_agent_may_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert chosen(CARDS) is None


NAMED = [{"name": "NVIDIA A100", **card} for card in CARDS]


def test_a_chosen_card_whose_memory_is_taken_by_now_refuses_the_run() -> None:
    with pytest.raises(NotLaunched) as refused:
        check_cards({"limits": {"gpu_uuids": ["GPU-1"]}}, 8000.0, lambda: NAMED)
    assert refused.value.failure.code == "no_gpu_free"
    assert refused.value.failure.message.startswith("No GPU has 8000 MB free: NVIDIA A100")


@pytest.mark.parametrize(("uuid", "least_mb"), [("GPU-2", 8000.0), ("GPU-3", 8000.0), ("GPU-1", None)])
def test_a_card_with_enough_or_unknown_memory_or_that_was_pinned_is_taken(uuid: str, least_mb: Any) -> None:
    check_cards({"limits": {"gpu_uuids": [uuid]}}, least_mb, lambda: NAMED)


@pytest.mark.parametrize("uuids", [None, []])
def test_without_a_chosen_card_none_is_looked_at(uuids: Any) -> None:
    def look() -> list[dict[str, Any]]:
        raise AssertionError

    check_cards({"limits": {"gpu_uuids": uuids}}, 8000.0, look)
