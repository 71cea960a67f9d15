"""LoRA as a parameter asks for it, and what quantising needs before a model is loaded."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
from parts import need_module

from potato_ray.trainers.adapters import EIGHT_BIT, FOUR_BIT, LORA, NONE, Lora, check_quantization
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.hf_text import HfTextClassification
from potato_ray.trainers.params import check_params, completed


def test_true_asks_for_every_default_and_false_for_nothing() -> None:
    assert Lora.of(completed(LORA, True)) == Lora(16, 32, 0.05, None, NONE)
    assert Lora.of(completed(LORA, False)) is None


def test_a_mapping_overrides_some_of_it() -> None:
    asked = Lora.of(completed(LORA, {"r": 4, "targets": "query", "quantize": "4bit"}))
    assert asked == Lora(4, 32, 0.05, ("query",), FOUR_BIT)


def test_a_member_that_it_does_not_take_is_refused_before_the_run() -> None:
    (problem,) = check_params(HfTextClassification, {"lora": {"rank": 4}})
    assert problem.message.startswith("hf-text-classification: lora does not take rank; it takes r, alpha")
    (problem,) = check_params(HfTextClassification, {"lora": {"quantize": "4 bit"}})
    assert "lora.quantize must be one of none, 4bit, 8bit, not '4 bit'. Did you mean 4bit?" in problem.message


@pytest.mark.parametrize("how", [FOUR_BIT, EIGHT_BIT])
def test_without_bitsandbytes_its_install_line_is_told(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    need_module("torch")
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(TrainerError, match="bitsandbytes") as missing:
        check_quantization(how, "cuda")
    assert missing.value.code == "missing_dependency"
    assert missing.value.next_step.endswith("-m pip install bitsandbytes")


def test_a_bitsandbytes_for_another_cuda_is_told_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    need_module("torch")
    torch = importlib.import_module("torch")

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA Setup failed despite GPU being available")

    package = ModuleType("bitsandbytes")
    package.__version__ = "0.99.0"  # type: ignore[attr-defined]
    package.functional = SimpleNamespace(quantize_4bit=fails)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bitsandbytes", package)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: None)
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    with pytest.raises(
        TrainerError, match=r"bitsandbytes 0\.99\.0 cannot .* for CUDA 12\.6: CUDA Setup failed"
    ) as end:
        check_quantization(FOUR_BIT, "cuda:0")
    assert (end.value.code, torch.__version__ in end.value.message) == ("unfitting_device", True)
