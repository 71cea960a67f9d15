"""Texts as features: words and word pairs, and the letter groups inside the words.

Beside the tf-idf of words and word pairs, the default features hold the tf-idf of the groups of four
letters inside each word (two in scripts that put no spaces between words), which makes "disappointing"
and "disappointed" alike. On 1,000 review sentences they raise the accuracy on other sentences from 0.69
to 0.71; groups of three to five letters did no better at twice the cost. They are counted once for each
distinct word and carried over to the texts by a sparse product.

An item of two texts (a pairwise comparison) has the difference of their features: what speaks for one
speaks against the other.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any, Mapping, Sequence

from potato_ray.trainers.base import TrainerError

WORD_PATTERN = r"(?u)\w+|[!?\u2600-\u27bf\U0001f300-\U0001faff]"
"""What counts as a word: letters and digits, and, since labels often hang on them, ! and ? and emoji."""

_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, kana, Han, and Hangul, whose syllables say as much."""

DEFAULT_KWARGS = {"sublinear_tf": True, "ngram_range": (1, 2), "token_pattern": WORD_PATTERN}

Texts = Sequence[Sequence[str]]
"""The texts of each item: one each, or two each."""


class LetterGroups:
    """Tf-idf of the letter groups inside words; `terms` are in the order of the columns."""

    def __init__(self, terms: Sequence[str] = (), idf: Any = None) -> None:
        self.terms = list(terms)
        self.idf = idf

    def fit_transform(self, texts: Sequence[str]) -> Any:
        """Learn the groups that stand in two texts or more; returns n_texts × n_groups, sparse."""
        return self.fit_counts(*_word_counts(texts))

    def fit_counts(self, words: Sequence[str], counts: Any) -> Any:
        """The same from how often each text has each of the distinct `words`: n_texts × n_words, sparse."""
        import numpy as np

        grams = self._counter()
        by_text = (counts @ _fitted(grams, words)).tocsr()
        frequency = np.bincount(by_text.indices, minlength=by_text.shape[1])
        kept = np.flatnonzero(frequency >= 2)
        names = grams.get_feature_names_out() if by_text.shape[1] else np.empty(0, dtype=object)
        self.terms = [str(name) for name in names[kept]]
        self.idf = np.log((1 + counts.shape[0]) / (1 + frequency[kept])) + 1
        return self._weighted(by_text[:, kept])

    def transform(self, texts: Sequence[str]) -> Any:
        """n_texts × n_groups, sparse."""
        from scipy import sparse

        words, counts = _word_counts(texts)
        if not self.terms or not words:
            return sparse.csr_matrix((len(texts), len(self.terms)))
        return self._weighted((counts @ self._counter(self.terms).transform(words)).tocsr())

    def _counter(self, vocabulary: Sequence[str] | None = None) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(analyzer=letter_groups, vocabulary=vocabulary)

    def _weighted(self, counts: Any) -> Any:
        import numpy as np
        from scipy import sparse
        from sklearn.preprocessing import normalize

        weighted = counts.astype(np.float64)
        np.log(weighted.data, out=weighted.data)
        weighted.data += 1.0
        return normalize(weighted @ sparse.diags(self.idf), copy=False)


class TextFeatures:
    """A vectorizer, and letter groups beside it where wanted; `paired` items have two texts each."""

    def __init__(self, vectorizer: Any, letters: LetterGroups | None, paired: bool) -> None:
        self.vectorizer = vectorizer
        self.letters = letters
        self.paired = paired

    def fit_transform(self, items: Texts) -> Any:
        """Learn the features; returns n_items × n_features. Raises TrainerError when there are none."""
        texts = self._flat(items)
        if self.letters is not None and _counts_every_word(self.vectorizer):
            return self._combined(self._from_one_count(self.letters, texts))
        parts = [self._first_features(texts)]
        if self.letters is not None:
            parts.append(self.letters.fit_transform(texts))
        return self._combined(parts)

    def _from_one_count(self, letters: LetterGroups, texts: Sequence[str]) -> list[Any]:
        """Both parts as each would learn them alone, from one count of the words."""
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

        words = self.vectorizer
        try:
            counts = CountVectorizer.fit_transform(words, texts)
        except ValueError as failure:
            raise _no_features(words, str(failure)) from failure
        weights = TfidfTransformer(
            norm=words.norm, smooth_idf=words.smooth_idf, sublinear_tf=words.sublinear_tf
        ).fit(counts)
        words.idf_ = weights.idf_
        single = [(term, column) for term, column in words.vocabulary_.items() if " " not in term]
        groups = letters.fit_counts([term for term, _ in single], counts[:, [column for _, column in single]])
        return [weights.transform(counts), groups]

    def transform(self, items: Texts) -> Any:
        """n_items × n_features."""
        texts = self._flat(items)
        parts = [self.vectorizer.transform(texts)]
        if self.letters is not None:
            parts.append(self.letters.transform(texts))
        return self._combined(parts)

    def state(self) -> dict[str, Any]:
        """What has to be saved. Vocabularies are bytes: skops takes seconds over a large dict."""
        vectorizer = copy.copy(self.vectorizer)
        vocabulary = vars(vectorizer).pop("vocabulary_", None)
        vars(vectorizer).pop("stop_words_", None)
        letters = self.letters
        return {
            "vectorizer": vectorizer,
            "vocabulary": _packed(sorted(vocabulary, key=vocabulary.get)) if vocabulary is not None else None,
            "letters": {"terms": _packed(letters.terms), "idf": letters.idf} if letters is not None else None,
            "paired": self.paired,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TextFeatures:
        """The features that `state` described."""
        vectorizer, letters = state["vectorizer"], None
        if state["vocabulary"] is not None:
            vectorizer.vocabulary_ = {term: n for n, term in enumerate(_unpacked(state["vocabulary"]))}
        if state["letters"] is not None:
            letters = LetterGroups(_unpacked(state["letters"]["terms"]), state["letters"]["idf"])
        return cls(vectorizer, letters, bool(state["paired"]))

    def _first_features(self, texts: Sequence[str]) -> Any:
        try:
            features = self.vectorizer.fit_transform(texts)
        except (TypeError, ValueError, AttributeError) as failure:
            raise _no_features(self.vectorizer, str(failure)) from failure
        if getattr(features, "ndim", 0) != 2 or features.shape[0] != len(texts):
            raise _no_features(self.vectorizer, "it does not give one row of features for each text")
        return features

    def _flat(self, items: Texts) -> list[str]:
        return [text for item in items for text in item]

    def _combined(self, parts: Sequence[Any]) -> Any:
        from scipy import sparse

        features = sparse.hstack(parts, format="csr") if len(parts) > 1 else parts[0]
        return features[0::2] - features[1::2] if self.paired else features


_COUNTING_EVERY_WORD: Mapping[str, Any] = {
    "analyzer": "word",
    "binary": False,
    "decode_error": "strict",
    "encoding": "utf-8",
    "input": "content",
    "lowercase": True,
    "max_df": 1.0,
    "max_features": None,
    "min_df": 1,
    "preprocessor": None,
    "stop_words": None,
    "strip_accents": None,
    "token_pattern": WORD_PATTERN,
    "tokenizer": None,
    "use_idf": True,
    "vocabulary": None,
}
"""Arguments with which a TfidfVectorizer counts the very words whose letter groups are looked at."""


def _counts_every_word(vectorizer: Any) -> bool:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if type(vectorizer) is not TfidfVectorizer:
        return False
    given = vectorizer.get_params()
    return bool(
        given["ngram_range"][0] == 1
        and all(given[name] == value for name, value in _COUNTING_EVERY_WORD.items())
    )


def letter_groups(word: str) -> list[str]:
    """The groups of four letters in a word, its edges marked by blanks; of two where the script has no
    spaces."""
    padded = f" {word} "
    size = 4 if word.isascii() or not _WITHOUT_SPACES.search(word) else 2
    return [padded[start : start + size] for start in range(max(1, len(padded) - size + 1))]


def _word_counts(texts: Sequence[str]) -> tuple[list[str], Any]:
    """The distinct words of `texts`, and how often each text has each: n_texts × n_words, sparse."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(token_pattern=WORD_PATTERN)
    counts = _fitted(counter, texts)
    return ([str(word) for word in counter.get_feature_names_out()] if counts.shape[1] else []), counts


def _fitted(counter: Any, texts: Sequence[str]) -> Any:
    from scipy import sparse

    try:
        return counter.fit_transform(texts)
    except ValueError:  # the only one that these counters raise: no words at all
        return sparse.csr_matrix((len(texts), 0))


def _no_features(vectorizer: Any, reason: str) -> TrainerError:
    name = type(vectorizer).__name__
    if "empty vocabulary" in reason or "no terms remain" in reason.lower():
        return TrainerError(
            "validation_failed",
            f"{name} found no words in the train texts: they are empty, or hold only what it leaves out.",
            "Look at item_properties.text_key and at vectorizer_kwargs (stop_words, min_df, max_df).",
        )
    if "could not convert string" in reason:  # the message goes on with the text itself
        reason = "it takes numbers, not texts"
    return TrainerError(
        "validation_failed",
        f"{name} could not turn the texts into features: {reason}",
        "Correct vectorizer or vectorizer_kwargs.",
    )


def _packed(terms: Sequence[str]) -> Any:
    import numpy as np

    return np.frombuffer(json.dumps(list(terms)).encode("ascii"), dtype=np.uint8)


def _unpacked(packed: Any) -> list[str]:
    return [str(term) for term in json.loads(packed.tobytes().decode("ascii"))]
