"""LoRA and QLoRA by peft and bitsandbytes: what is asked for, and whether it can be had before a model loads.

LoRA (Hu et al. 2021) trains two thin matrices beside each linear layer and leaves the model itself as it is;
QLoRA (Dettmers et al. 2023) keeps that model in 4 bit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Mapping, Sequence

from potato_ray.trainers.base import Param, TrainerError
from potato_ray.trainers.installing import missing_dependency
from potato_ray.trainers.model_files import write_json
from potato_ray.trainers.quiet import quiet
from potato_ray.trainers.unreadable import in_a_line, is_memory

NONE, FOUR_BIT, EIGHT_BIT = "none", "4bit", "8bit"
QUANTIZE = (NONE, FOUR_BIT, EIGHT_BIT)
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ALL_LINEAR = "all-linear"
"""peft's word for every linear layer but the last, whatever the architecture calls them."""

LORA = Param(
    "lora",
    "bool_or_mapping",
    False,
    "Train thin matrices beside the layers (LoRA) and leave the model as it is: less memory, a small file.",
    members=(
        Param("r", "int", 16, "How many columns the matrices have.", minimum=1, maximum=4096),
        Param("alpha", "int", 32, "What they add is scaled by alpha / r.", minimum=1, maximum=65536),
        Param("dropout", "float", 0.05, "The share of inputs left out at random.", minimum=0.0, maximum=0.9),
        Param(
            "targets",
            "names",
            None,
            "The layers, by the ends of their names. Left out: all linear ones but the last.",
            optional=True,
        ),
        Param(
            "quantize",
            "choice",
            NONE,
            "Keep the model itself in 4 or 8 bits (QLoRA); needs CUDA and bitsandbytes.",
            choices=QUANTIZE,
        ),
    ),
)


@dataclass(frozen=True)
class Lora:
    """`targets` are the names of layers; None: all linear ones."""

    r: int
    alpha: int
    dropout: float
    targets: tuple[str, ...] | None
    quantize: str

    @classmethod
    def of(cls, value: Any) -> Lora | None:
        """By a completed value of LORA; None for false."""
        if not isinstance(value, Mapping):
            return None
        targets = value["targets"]
        return cls(
            int(value["r"]),
            int(value["alpha"]),
            float(value["dropout"]),
            tuple(targets) if targets else None,
            str(value["quantize"]),
        )

    def onto(self, model: Any, new_layers: Sequence[str], checkpointing: bool) -> Any:
        """The model with the matrices; they and `new_layers` are what is trained. Raises TrainerError."""
        import peft

        ends = _layer_ends(model, new_layers)
        try:
            with quiet():
                if self.quantize != NONE:
                    model = peft.prepare_model_for_kbit_training(
                        model, use_gradient_checkpointing=checkpointing
                    )
                return peft.get_peft_model(model, self.config(new_layers))
        except ValueError as failure:
            raise self._refused(ends, failure) from failure

    def _refused(self, ends: Sequence[str], failure: ValueError) -> TrainerError:
        """`ends` are the last parts of the names of the layers that LoRA can be put beside."""
        if self.targets is None or not ends:
            message = f"LoRA finds no layers {ALL_LINEAR} in this model: {in_a_line(failure)}"
            return TrainerError("validation_failed", message, "Choose another model, or leave lora out.")
        return TrainerError(
            "validation_failed",
            f"LoRA cannot be put beside the layers {', '.join(self.targets)} of this model: "
            f"{in_a_line(failure)}",
            f"Name some of {', '.join(ends)} in lora.targets, or leave targets out.",
        )

    def config(self, new_layers: Sequence[str] = ()) -> Any:
        """As peft takes it, for a classifier of sequences.

        `new_layers`, which the base has no weights for, are trained and saved whole: they are drawn anew
        whenever the base is loaded.
        """
        import peft

        known = {each.name for each in fields(peft.LoraConfig)}
        more = {"exclude_modules": list(new_layers)} if new_layers and "exclude_modules" in known else {}
        return peft.LoraConfig(
            task_type=peft.TaskType.SEQ_CLS,
            r=self.r,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=ALL_LINEAR if self.targets is None else list(self.targets),
            modules_to_save=list(new_layers) or None,
            **more,
        )


def _layer_ends(model: Any, new_layers: Sequence[str]) -> list[str]:
    """The last part of each linear layer's name, without `new_layers`, which are trained whole."""
    import torch

    linear = (name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear))
    return [end for end in dict.fromkeys(name.rpartition(".")[2] for name in linear) if end not in new_layers]


def save_adapter(model: Any, folder: Path, base: str) -> None:
    """Write the adapter as safetensors, its base by the name that the run knows it by."""
    model.save_pretrained(str(folder))
    readme = folder / "README.md"
    if readme.exists():  # an empty form
        readme.unlink()
    config = folder / CONFIG
    body = json.loads(config.read_text("utf-8"))
    write_json(config, {**body, "base_model_name_or_path": base})


def with_adapter(model: Any, folder: Path) -> Any:
    """A base model with the adapter that a folder holds. Raises TrainerError (validation_failed)."""
    import peft

    try:
        for name in (CONFIG, WEIGHTS):
            (folder / name).stat()
        with quiet():
            return peft.PeftModel.from_pretrained(model, str(folder))
    except Exception as failure:  # torn files and unlike bases: each of its libraries has its own kind
        if is_memory(failure):
            raise
        raise TrainerError(
            "validation_failed",
            f"The adapter in {folder} cannot be put beside its base model: {in_a_line(failure)}",
            "Copy the run's artifacts again, or train again.",
        ) from failure


def quantization(how: str) -> Any:
    """The quantization_config that a base model is loaded by; None for none."""
    if how == NONE:
        return None
    import torch
    import transformers

    if how == EIGHT_BIT:
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16,
    )


def check_quantization(how: str, device: str) -> None:
    """Quantise a few numbers on the GPU, before a model is loaded for nothing.

    Raises TrainerError: unfitting_device, missing_dependency.
    """
    if how == NONE:
        return
    if not device.startswith("cuda"):
        raise TrainerError(
            "unfitting_device",
            f"quantize: {how} needs a CUDA GPU, and this run has {device}.",
            "Choose a backend with a GPU, or leave quantize out.",
        )
    import torch

    try:
        import bitsandbytes
        from bitsandbytes import functional

        numbers = torch.ones(64, device=device)
        if how == FOUR_BIT:
            functional.quantize_4bit(numbers, quant_type="nf4")
        else:
            functional.quantize_blockwise(numbers)
        torch.cuda.synchronize(device)
    except ImportError as missing:
        raise missing_dependency(missing, "pip install bitsandbytes", f"quantize: {how}") from missing
    except Exception as failure:  # what its CUDA libraries raise is of many kinds
        if is_memory(failure):
            raise
        version = getattr(bitsandbytes, "__version__", "?")
        raise TrainerError(
            "unfitting_device",
            f"bitsandbytes {version} cannot quantise on this GPU with torch {torch.__version__} for CUDA "
            f"{torch.version.cuda}: {failure}",
            "Install a bitsandbytes built for that CUDA, or leave quantize out.",
        ) from failure
