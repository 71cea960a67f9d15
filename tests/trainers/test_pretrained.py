"""A model is a folder, or in a cache, or fetched; what cannot be had is refused in a sentence, and soon."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_hub import COMMIT, serving_hub

from potato_ray.trainers import model_hub
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.model_folder import lacks
from potato_ray.trainers.pretrained import Source, locate

FILES = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"{}"}
CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "SENTENCE_TRANSFORMERS_HOME")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty HF_HOME, and a Hub behind a port where nobody listens."""
    for name in (*CACHES, *PROXIES, "POTATO_MODEL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
    # What huggingface_hub would ask the real one, to tell it which program uses it.
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", {"agents": []}, raising=False)
    return tmp_path / "home" / "hub"


def put(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    return folder


def cached(cache: Path, name: str = "some/model", files: dict[str, bytes] = FILES) -> Path:
    model = cache / f"models--{name.replace('/', '--')}"
    put(model, {"refs/main": COMMIT.encode()})
    return put(model / "snapshots" / COMMIT, files)


def refused(name: str, revision: str = "") -> TrainerError:
    with pytest.raises(TrainerError) as refusal:
        locate(name, revision)
    assert refusal.value.code == "validation_failed"
    assert refusal.value.next_step
    return refusal.value


def test_a_step_line_names_a_folder_by_its_last_part_and_a_model_of_the_hub_as_it_is(tmp_path: Path) -> None:
    folder = put(tmp_path / "models" / "mine")
    assert locate(f"{folder}/").short == "mine"
    assert Source("some/model", folder, COMMIT).short == "some/model"


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    found = locate(str(put(tmp_path / "mine")))
    assert (found.folder, found.revision) == (tmp_path / "mine", "")


def test_a_folder_named_from_where_we_stand_is_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert locate("mine").folder == locate("./mine").folder == tmp_path / "mine"


@pytest.mark.parametrize(
    "place",
    [
        lambda root, env: root / "home" / "hub",
        lambda root, env: (env("HF_HUB_CACHE", str(root / "c")), root / "c")[1],
        lambda root, env: (env("POTATO_MODEL_CACHE", str(root / "m")), root / "m" / "hub")[1],
        lambda root, env: (env("SENTENCE_TRANSFORMERS_HOME", str(root / "m")), root / "m")[1],
        lambda root, env: (env("TRANSFORMERS_CACHE", str(root / "m")), root / "m")[1],
    ],
)
def test_a_model_is_found_in_every_cache_without_asking_the_hub(
    place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    snapshot = cached(place(tmp_path, monkeypatch.setenv))
    found = locate("some/model")
    assert (found.name, found.folder, found.revision) == ("some/model", snapshot, COMMIT)
    assert locate("some/model", COMMIT) == found


def test_without_hf_home_the_potato_cache_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("POTATO_MODEL_CACHE", "/models")
    assert model_hub.caches()[0] == Path("/models/hub")


def test_a_hub_that_is_not_there_is_a_sentence_with_the_way_out(cache: Path) -> None:
    refusal = refused("some/model")
    assert f"some/model is neither a folder nor in the cache {cache}, and" in refusal.message
    assert "Connection refused" in refusal.message
    assert "hf download some/model" in refusal.next_step
    assert "POTATO_MODEL_CACHE" in refusal.next_step


def test_a_hub_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_hub, "FIRST_ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "no answer within 0.2 s" in refused("some/model").message


def test_offline_by_wish_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) forbids" in refused("some/model").message


def test_a_torn_copy_is_fetched_anew_or_named(cache: Path) -> None:
    snapshot = cached(cache, files={"config.json": b"{}", "tokenizer.json": b"{}"})
    assert f"{snapshot} lacks weights as safetensors, and it could not" in refused("some/model").message


def test_a_model_of_the_hub_is_fetched_once_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    more = {"onnx/model.json": b"{}", "pytorch_model.bin": b"pickled"}
    with serving_hub({"some/model": {**FILES, **more}}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        found = locate("some/model", tell=told.append)
        hub.asked.clear()
        assert locate("some/model", tell=told.append) == found
    assert (found.revision, told, hub.asked) == (COMMIT, ["fetching the model some/model"], [])
    assert {path.name for path in found.folder.iterdir()} == set(FILES)


@pytest.mark.parametrize(
    ("name", "revision", "message", "advice"),
    [
        ("no/body", "", "the Hub has no such model", "Correct model_name"),
        (
            "so/closed",
            "",
            "only to those who have accepted its conditions",
            "/so/closed and run `hf auth login`",
        ),
        ("some/model", "gone", "the Hub has no revision gone of it", "another model or revision"),
        ("some/bin", "", "lacks weights as safetensors", "another model"),
    ],
)
def test_what_the_hub_refuses_comes_with_advice(
    name: str, revision: str, message: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled = {"config.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": b"pickled"}
    models = {"some/model": FILES, "so/closed": FILES, "some/bin": pickled}
    with serving_hub(models, gated=frozenset({"so/closed"})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        refusal = refused(name, revision)
    assert message in refusal.message
    assert advice in refusal.next_step


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file in its place")
    with serving_hub({"some/model": FILES}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        refusal = refused("some/model")
    assert "cannot be written there" in refusal.message
    assert str(cache) in refusal.next_step


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "model_name is empty"),
        ("  ", "model_name is empty"),
        ("/no/where", "model_name names no folder on this machine: /no/where"),
        ("../mine", "is no whole path"),
        ("~nobody-of-that-name/mine", "names no folder"),
        ("C:\\models\\mine", "names no folder on this machine: C:\\models\\mine"),
        ("models\\mine", "is no whole path"),
        ("./mine", "model_name ./mine is no whole path"),
        ("a/b/c", "is no whole path"),
        ("https://huggingface.co/some/model", "is an address"),
        ("hf.co/some/model", "hf.co/some/model is an address"),
        ("\\\\server\\models\\mine", "no folder"),
        ("a model", "a model is neither a folder nor the id"),
        ("some--model", "neither a folder nor the id"),
        ("some\0model\n", "'some\\x00model\\n' is neither a folder nor the id"),
    ],
)
def test_a_name_that_cannot_be_a_models_is_refused_at_once(name: str, words: str) -> None:
    assert words in refused(name).message


def test_a_name_too_long_for_the_file_system_is_refused() -> None:
    assert "cannot be looked into: File name too long" in refused("/" + "x" * 300).message


SENTENCES = [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, ""),
        ({"config.json": None}, "config.json"),
        ({"model.safetensors": None, "model.bin": b""}, "weights as safetensors (pickled ones"),
        ({"tokenizer.json": None}, "its tokenizer's files"),
        ({"modules.json": SENTENCES}, "1_Pooling/config.json"),
        ({"modules.json": SENTENCES, "1_Pooling/config.json": b"{}"}, ""),
        (
            {"model.safetensors.index.json": {"weight_map": {"a": "model-2.safetensors"}}},
            "model-2.safetensors",
        ),
        ({"modules.json": b"{"}, "files that can be read (modules.json is no JSON"),
        ({"modules.json": [1]}, "files that can be read"),
        ({"model.safetensors.index.json": []}, "files that can be read"),
    ],
)
def test_what_a_folder_lacks_is_named(change: dict[str, object], missing: str, tmp_path: Path) -> None:
    files = {
        name: body if isinstance(body, bytes) else json.dumps(body).encode()
        for name, body in {**FILES, **change}.items()
        if body is not None
    }
    found = lacks(put(tmp_path, files))
    assert found.startswith(missing)
    assert bool(found) == bool(missing)


def test_a_link_that_leads_nowhere_is_no_file(tmp_path: Path) -> None:
    put(tmp_path, {"config.json": b"{}", "tokenizer.json": b"{}"})
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    assert lacks(tmp_path).startswith("weights")
