"""How long texts may be, by the model and by whoever trains."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from potato_ray.trainers.token_data import USUALLY_LONGEST, most_tokens, usual_length

NO_LIMIT = 10**30
"""What tokenizers say that have none."""


class Words:
    """A tokenizer by blanks."""

    def __call__(self, texts: list[str], *, max_length: int, **_: object) -> dict[str, list[list[int]]]:
        return {"input_ids": [[0] * min(len(text.split()), max_length) for text in texts]}


@pytest.mark.parametrize(
    ("of_tokenizer", "config", "most"),
    [
        (512, {"max_position_embeddings": 512}, 512),
        (NO_LIMIT, {"max_position_embeddings": 32_768}, 32_768),
        (512, {"max_position_embeddings": 514, "model_type": "roberta"}, 512),
        (NO_LIMIT, {"max_position_embeddings": 514, "model_type": "roberta"}, 512),
        (128, {"max_position_embeddings": 514, "model_type": "roberta"}, 128),
        (NO_LIMIT, {"max_position_embeddings": -1}, None),
        (NO_LIMIT, {}, None),
    ],
)
def test_a_model_takes_as_many_tokens_as_it_and_its_tokenizer_say(
    of_tokenizer: int, config: dict[str, object], most: int | None
) -> None:
    assert most_tokens(SimpleNamespace(model_max_length=of_tokenizer), SimpleNamespace(**config)) == most


@pytest.mark.parametrize(
    ("n_words", "most", "length"),
    [(20, 512, 24), (600, 512, 512), (20_000, 32_768, USUALLY_LONGEST), (20_000, None, USUALLY_LONGEST)],
)
def test_the_usual_length_is_that_of_the_texts_within_bounds(
    n_words: int, most: int | None, length: int
) -> None:
    assert usual_length(Words(), [("a " * n_words,)] * 3, most) == length
