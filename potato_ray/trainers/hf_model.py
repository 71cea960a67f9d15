"""A transformer with its tokenizer that classifies texts: loading it, and what it says of texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

from potato_ray.trainers import adapters
from potato_ray.trainers.features import Texts
from potato_ray.trainers.model_folder import CONFIG
from potato_ray.trainers.quiet import quiet
from potato_ray.trainers.text_objective import Objective
from potato_ray.trainers.token_data import by_length, encode
from potato_ray.trainers.unreadable import is_memory, unreadable

AUTO, BF16, FP16, FP32 = "auto", "bf16", "fp16", "fp32"
PRECISIONS = (AUTO, BF16, FP16, FP32)


@dataclass
class TextClassifier:
    """`half` is bf16, fp16, or "" for single precision; `paired`: items have two texts."""

    model: Any
    tokenizer: Any
    objective: Objective
    paired: bool
    max_length: int
    batch_size: int
    half: str
    temperature: float = 1.0

    def outputs(self, texts: Texts, told: Callable[[int], None] = lambda n_done: None) -> Any:
        """n × outputs, float32, in the order of the texts; `told` gets how many are done."""
        import numpy as np
        import torch

        tokens = encode(self.tokenizer, texts, self.max_length)
        device = next(self.model.parameters()).device
        pad = collator(self.tokenizer, device.type)
        found = np.empty((len(tokens), self.objective.n_outputs), dtype=np.float32)
        n_done = 0
        self.model.eval()
        with torch.inference_mode(), computed_in(self.half, device.type):
            for numbers in by_length([len(item["input_ids"]) for item in tokens], self.batch_size * 2):
                batch = pad([dict(tokens[number]) for number in numbers])
                said = self.model(**{name: value.to(device) for name, value in batch.items()})
                found[numbers] = said.logits.float().cpu().numpy()
                n_done += len(numbers)
                told(n_done)
        return found

    def answers(self, texts: Texts) -> Iterator[tuple[dict[str, Any], float | None]]:
        """(payload, confidence) of each text, in order."""
        return self.objective.answers(self.outputs(texts), self.temperature)


@dataclass(frozen=True)
class Loaded:
    """A model, and the names of its layers that the folder had no fitting weights for: those are random."""

    model: Any
    new_layers: tuple[str, ...]


def load_base(folder: Path, objective: Objective, quantize: str) -> Loaded:
    """A pretrained model with an output for each of the objective's, in a new last layer.

    Raises TrainerError (validation_failed) for a folder that transformers cannot read.
    """
    import transformers

    names = objective.names()
    try:
        with quiet():
            model, found = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(folder),
                num_labels=objective.n_outputs,
                id2label=dict(enumerate(names)),
                label2id={name: number for number, name in enumerate(names)},
                problem_type=objective.problem_type,
                quantization_config=adapters.quantization(quantize),
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except Exception as failure:  # torn weights, unknown architectures: each library has its own kind
        if is_memory(failure):
            raise
        raise unreadable(folder, failure) from failure
    unlike = [each if isinstance(each, str) else each[0] for each in found["mismatched_keys"]]
    new = {key.rpartition(".")[0] for key in (*found["missing_keys"], *unlike)}
    return Loaded(model, tuple(sorted(new)))


def load_trained(folder: Path, objective: Objective) -> Any:
    """A model that a run saved. Raises TrainerError when a weight is missing or the outputs are others."""
    loaded = load_base(folder, objective, adapters.NONE)
    said = list(dict(json.loads((folder / CONFIG).read_text("utf-8")).get("id2label") or {}).values())
    if said != objective.names():
        raise unreadable(folder, ValueError(f"its outputs stand for {said}, not {objective.names()}"))
    if loaded.new_layers:
        raise unreadable(folder, ValueError(f"it lacks the weights of {', '.join(loaded.new_layers)}"))
    return loaded.model


def load_tokenizer(folder: Path, model: Any) -> Any:
    """The tokenizer of a model, which learns from it what it pads with."""
    import transformers

    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(folder), trust_remote_code=False, local_files_only=True
            )
    except Exception as failure:
        raise unreadable(folder, failure) from failure
    if tokenizer.pad_token is None:  # models that were made to go on writing have none
        tokenizer.pad_token = tokenizer.eos_token
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer


def collator(tokenizer: Any, device_type: str) -> Any:
    """What makes a batch of items, padded to the longest; tensor cores like multiples of eight."""
    import transformers

    return transformers.DataCollatorWithPadding(
        tokenizer, pad_to_multiple_of=8 if device_type == "cuda" else None
    )


def precision(wanted: str, device: str) -> str:
    """bf16, fp16, or "" for single precision. "auto" is bf16 where the device has units for it.

    On a CPU, those are AMX's: batches of short texts then take two thirds of the time to learn from, and half
    of it to predict. Others emulate it, and are slower with it.
    """
    import torch

    on_cuda = device.startswith("cuda")
    if wanted == FP16:
        return FP16 if on_cuda else ""
    if wanted == BF16:
        return BF16 if on_cuda or device == "cpu" else ""
    if wanted == FP32:
        return ""
    if on_cuda:
        return BF16 if torch.cuda.is_bf16_supported() else ""
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return BF16 if device == "cpu" and has_amx is not None and has_amx() else ""


def computed_in(half: str, device_type: str) -> Any:
    """A context in which torch computes so."""
    import torch

    return torch.autocast(device_type, torch.float16 if half == FP16 else torch.bfloat16, enabled=bool(half))
