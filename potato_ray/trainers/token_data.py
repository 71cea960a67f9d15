"""Texts as token ids for transformers: how long they may be, and batches of texts that are about as long.

Padding a batch to its longest text, and putting texts of like length together, spares most of the work that
padding to one fixed length costs: reviews of 20 to 400 tokens are mostly padding then.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Sequence

PERCENTILE = 99.0
"""Of the train texts' lengths: where max_length is not set, the longest hundredth is cut."""
MULTIPLE = 8
"""Lengths are rounded up to it, which tensor cores like."""
USUALLY_LONGEST = 8192
"""Where max_length is not set, however long texts and model are."""

_FROM_TWO = (
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "roberta-prelayernorm",
    "camembert",
    "mpnet",
    "longformer",
    "data2vec-text",
    "luke",
    "esm",
    "ibert",
    "xmod",
)
"""Their positions begin after that of padding."""

Tokens = Mapping[str, List[int]]
Text = Sequence[str]
"""One text, or two for a pair."""


class TokenItems:
    """n items for a DataLoader: their tokens, and their targets where there are any."""

    def __init__(self, tokens: Sequence[Tokens], targets: Any = None) -> None:
        self._tokens = tokens
        self._targets = targets

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, number: int) -> dict[str, Any]:
        item: dict[str, Any] = dict(self._tokens[number])
        if self._targets is not None:
            item["labels"] = self._targets[number]
        return item

    @property
    def lengths(self) -> list[int]:
        return [len(item["input_ids"]) for item in self._tokens]


def encode(tokenizer: Any, texts: Sequence[Text], max_length: int) -> list[Tokens]:
    """The tokens of each text, cut to `max_length`; of a pair, the longer text is cut."""
    if not texts:
        return []
    columns = [list(column) for column in zip(*texts)]
    coded = tokenizer(*columns, truncation=True, max_length=max_length, padding=False)
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in coded]
    return [{name: coded[name][n] for name in names} for n in range(len(texts))]


def usual_length(tokenizer: Any, texts: Sequence[Text], most: int | None) -> int:
    """What max_length is when nobody sets it: PERCENTILE of these texts' lengths, at most `most`."""
    import numpy as np

    most = min(most or USUALLY_LONGEST, USUALLY_LONGEST)
    lengths = [len(item["input_ids"]) for item in encode(tokenizer, texts, most)]
    wanted = int(np.ceil(np.percentile(lengths, PERCENTILE) / MULTIPLE) * MULTIPLE)
    return max(MULTIPLE, min(wanted, most))


def most_tokens(tokenizer: Any, config: Any) -> int | None:
    """How many tokens the model takes at most; None where it names no limit."""
    # RoBERTa and its kin count two positions for themselves; tokenizers without a limit say 10**30.
    offset = 2 if getattr(config, "model_type", "") in _FROM_TWO else 0
    positions = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits: list[Any] = [each - offset for each in positions if isinstance(each, int)]
    limits += [getattr(tokenizer, "model_max_length", None)]
    return min((each for each in limits if isinstance(each, int) and 0 < each < 10**9), default=None)


def cut_notice(model: str, asked: int, most: int) -> str:
    """What is said where max_length is more than the model takes."""
    return f"max_length is {asked}, and {model} takes {most} tokens at most: longer texts are cut there."


def by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """The numbers of the items of each batch, items of like length together, the longest first.

    A batch that does not fit into memory is then met at once and not after an hour.
    """
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
