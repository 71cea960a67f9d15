"""Pretrained models for tests, made from nothing: they know a few words and nothing else.

Weights are seeded, so that two makings are the same model. Nothing is fetched.
"""

from __future__ import annotations

import string
import tempfile
from pathlib import Path
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "a about again all always an and angry are as at awful back bad battery be been best better bought "
    "box broken but buy by cable came can cannot cheap cold day days do does easy excellent expected fair "
    "fast fine food for friendly from good got great had has have he her hotel how i if in is it its just "
    "kettle like long lovely me money more my new nice no noise not of off ok okay old on one only or "
    "ordinary our out over phone pleased poor price quality really room screen seat service she slow so "
    "some soup staff still than that the their them then there they this time to too two under up use "
    "useless usual very was waste we week well were what when which will with wonderful work works worse "
    "worst would you your "
)
"""Ordinary words of reviews. Any other word of Latin letters and digits is spelt out of its characters."""
WIDTH, LAYERS, HEADS, POSITIONS, SEED = 32, 2, 2, 128, 7


def tiny_bert(folder: Path) -> Path:
    """A BERT of two layers without a head, with its tokenizer, saved in `folder`."""
    import torch
    import transformers

    tokenizer = _tokenizer()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=POSITIONS,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = transformers.BertModel(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder), safe_serialization=True)
    tokenizer.save_pretrained(str(folder))
    return folder


def tiny_sentence_model(folder: Path) -> Path:
    """The same as a sentence-transformers model: the mean of its last layer is the embedding."""
    import sentence_transformers

    modules = _sentence_modules()
    with tempfile.TemporaryDirectory() as bert:
        body = modules.Transformer(str(tiny_bert(Path(bert))), max_seq_length=POSITIONS)
    pooling = modules.Pooling(WIDTH, pooling_mode="mean")
    model = sentence_transformers.SentenceTransformer(modules=[body, pooling], device="cpu")
    model.save(str(folder), create_model_card=False, safe_serialization=True)
    return folder


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    characters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = [
        *SPECIAL,
        *characters,
        *(f"##{each}" for each in string.ascii_lowercase + string.digits),
        *WORDS,
    ]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, numbers[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _sentence_modules() -> Any:
    """Where sentence-transformers keeps Transformer and Pooling: elsewhere since version 5."""
    try:
        from sentence_transformers.sentence_transformer import modules
    except ImportError:
        from sentence_transformers import models as modules
    return modules
