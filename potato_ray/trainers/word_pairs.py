"""Counting words and pairs of neighbouring words with integers.

The counts are those of scikit-learn's CountVectorizer with words and pairs. That makes a string of each
pair and looks it up in a dictionary; here each distinct word is looked up once, and a pair is a number that
is found by bisection. On 14,000 texts of 24 words learning takes a third of the time, and so does counting
in other texts.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, NamedTuple, Sequence

WORD_PATTERN = r"(?u)\w+|[!?\u2600-\u27bf\U0001f300-\U0001faff]"
"""What counts as a word: letters and digits, and, since labels often hang on them, ! and ? and emoji."""


class Words(NamedTuple):
    """The words of n texts, in lower case: `distinct` ones, and all in a row.

    `numbers` says which of the distinct ones each word is; those of text i are starts[i]:starts[i + 1].
    """

    distinct: list[str]
    numbers: Any
    starts: Any

    @property
    def texts(self) -> Any:
        """The number of the text that each word stands in."""
        import numpy as np

        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def counts(self) -> Any:
        """n_texts × n_distinct, sparse."""
        import numpy as np
        from scipy import sparse

        shape = (len(self.starts) - 1, len(self.distinct))
        counts = sparse.csr_matrix((np.ones(len(self.numbers)), self.numbers, self.starts), shape=shape)
        counts.sum_duplicates()
        return counts


def read_words(texts: Iterable[str]) -> Words:
    """Find the words of texts."""
    import numpy as np

    find = re.compile(WORD_PATTERN).findall
    known: dict[str, int] = {}
    numbers: list[int] = []
    starts = [0]
    for text in texts:
        numbers += [known.setdefault(word, len(known)) for word in find(text.lower())]
        starts.append(len(numbers))
    return Words(list(known), np.array(numbers, dtype=np.int64), np.array(starts, dtype=np.int64))


class WordPairs:
    """Which words and pairs have columns. `terms`, by column: a word, or two with a blank between."""

    def __init__(self, terms: Sequence[str]) -> None:
        import numpy as np

        self.terms = terms
        single = [(term, column) for column, term in enumerate(terms) if " " not in term]
        self._numbers = {word: number for number, (word, _) in enumerate(single)}
        self._columns = np.array([column for _, column in single], dtype=np.int64)
        keyed = sorted((self._key(term), column) for column, term in enumerate(terms) if " " in term)
        self._pairs = np.array([key for key, _ in keyed], dtype=np.int64)
        self._pair_columns = np.array([column for _, column in keyed], dtype=np.int64)

    def _key(self, pair: str) -> int:
        first, _, second = pair.partition(" ")
        return self._numbers[first] * len(self._numbers) + self._numbers[second]

    @classmethod
    def learn(cls, words: Words, pairs: bool) -> WordPairs:
        """Columns for every word, and with `pairs` for every pair of neighbours."""
        import numpy as np

        made = cls(())
        size = len(words.distinct)
        made._numbers = {word: number for number, word in enumerate(words.distinct)}
        made._columns = np.arange(size)
        if pairs:
            _, first, second = _neighbours(words, words.numbers)
            made._pairs = np.unique(first * size + second)
            made._pair_columns = size + np.arange(len(made._pairs))
        firsts, seconds = np.divmod(made._pairs, max(1, size))
        neighbours = zip(firsts.tolist(), seconds.tolist())
        made.terms = [*words.distinct, *(f"{words.distinct[a]} {words.distinct[b]}" for a, b in neighbours)]
        return made

    def count(self, words: Words) -> Any:
        """How often each text has each term: n_texts × n_terms, sparse."""
        import numpy as np
        from scipy import sparse

        known = np.array([self._numbers.get(word, -1) for word in words.distinct], dtype=np.int64)
        numbers = known[words.numbers] if len(known) else words.numbers
        found = numbers >= 0
        rows, columns = [words.texts[found]], [self._columns[numbers[found]]]
        if len(self._pairs):
            texts, first, second = _neighbours(words, numbers)
            keys = first * len(self._numbers) + second
            places = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
            hits = (self._pairs[places] == keys) & (first >= 0) & (second >= 0)
            rows.append(texts[hits])
            columns.append(self._pair_columns[places[hits]])
        at = (np.concatenate(rows), np.concatenate(columns))
        shape = (len(words.starts) - 1, len(self.terms))
        return sparse.coo_matrix((np.ones(len(at[0])), at), shape=shape).tocsr()


def _neighbours(words: Words, numbers: Any) -> tuple[Any, Any, Any]:
    """(text, number, number of the next word) for each word that has a next one in its text."""
    texts = words.texts
    together = texts[1:] == texts[:-1]
    return texts[1:][together], numbers[:-1][together], numbers[1:][together]
