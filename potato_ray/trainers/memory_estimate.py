"""How much memory a fine-tuning takes at most, roughly, before it begins; and how much it took.

Weights, gradients and AdamW's two moments are counted; what the layers keep for the way back is estimated
as in Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4: a
layer keeps s·b·h·(34 + 5·a·s/h) bytes in half precision, or 2·s·b·h with gradient checkpointing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from potato_ray.trainers.base import Reporter

MB = 1 << 20
_ADAM_BYTES = 8
_CUDA_MB = 500.0
"""What CUDA and its libraries take before anything is computed."""


@dataclass(frozen=True)
class Estimate:
    """In MiB; `cuda` is 0 on the CPU."""

    weights: float
    training: float
    activations: float
    cuda: float = 0.0

    @property
    def total(self) -> float:
        return self.weights + self.training + self.activations + self.cuda

    def in_words(self) -> str:
        parts = [
            f"weights {self.weights:,.0f}",
            f"gradients and optimizer {self.training:,.0f}",
            f"activations {self.activations:,.0f}",
        ]
        parts += [f"CUDA {self.cuda:,.0f}"] if self.cuda else []
        return f"{self.total:,.0f} MB ({', '.join(parts)})"


def estimate(
    model: Any, *, batch: int, length: int, half: bool, checkpointing: bool, on_cuda: bool = False
) -> Estimate:
    """Of a loaded model; `batch` texts of `length` tokens at once, `half`: computed in 16 bit."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    trained = [p for p in model.parameters() if p.requires_grad]
    training = sum(p.numel() * (p.element_size() + _ADAM_BYTES) for p in trained)
    activations = _activations(model.config, batch, length, half, checkpointing)
    return Estimate(weights / MB, training / MB, activations / MB, _CUDA_MB if on_cuda else 0.0)


def tell_estimate(reporter: Reporter, needed: Estimate, device: str) -> None:
    """Log it, beside what is free on the card; a warning where that is less."""
    words = f"Estimated memory: {needed.in_words()}"
    if not device.startswith("cuda"):
        reporter.log(f"{words}.")
        return
    import torch

    free = torch.cuda.mem_get_info(device)[0] / MB
    if needed.total <= free:
        reporter.log(f"{words}; {free:,.0f} MB are free on the card.")
        return
    reporter.log(
        f"{words}, but only {free:,.0f} MB are free on the card. If it runs out of memory, lower batch_size "
        "and raise gradient_accumulation, or set gradient_checkpointing or lora.",
        "warning",
    )


def tell_peak(reporter: Reporter, device: str) -> None:
    """Log how much of each card was taken at most; nothing on other devices."""
    if not device.startswith("cuda"):
        return
    import torch

    cards = [device] if ":" in device else [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    peaks = {card: torch.cuda.max_memory_allocated(card) / MB for card in cards}
    words = ", ".join(f"{peak:,.0f} MB on {card}" for card, peak in peaks.items())
    reporter.log(f"Peak GPU memory: {words}.")


def _activations(config: Any, batch: int, length: int, half: bool, checkpointing: bool) -> float:
    layers = _first(config, "num_hidden_layers", "n_layers", "n_layer")
    hidden = _first(config, "hidden_size", "dim", "n_embd", "d_model")
    heads = _first(config, "num_attention_heads", "n_heads", "n_head")
    if not (layers and hidden and heads):
        return 0.0
    of_tokens = length * batch * hidden
    kept = layers * of_tokens * (34 + 5 * heads * length / hidden)
    if checkpointing:
        # Each layer's input, and one layer's own while it is computed anew.
        kept = layers * of_tokens * 2 + kept / layers
    return float(kept * (1 if half else 2))


def _first(config: Any, *names: str) -> int:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return 0
