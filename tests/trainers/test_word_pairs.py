"""Words and pairs counted with integers are those that scikit-learn counts with strings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.features import DEFAULT_KWARGS, LetterGroups, TextFeatures

WORDS = st.sampled_from(["a", "B", "good", "Bad", "naïve", "不錯", "!", "😀", "don't", "x_1", "İ", "ß"])
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=12)


def one_each(texts: list[str]) -> list[tuple[str]]:
    return [(text,) for text in texts]


@given(learnt=TEXTS, others=TEXTS, pairs=st.booleans())
def test_the_features_are_those_of_the_vectorizer(learnt: list[str], others: list[str], pairs: bool) -> None:
    kwargs = {**DEFAULT_KWARGS, "ngram_range": (1, 2 if pairs else 1)}
    features, plain = TextFeatures(TfidfVectorizer(**kwargs), None, False), TfidfVectorizer(**kwargs)
    if not any(text.strip() for text in learnt):
        with pytest.raises(TrainerError, match="found no words"):
            features.fit_transform(one_each(learnt))
        return
    ours, theirs = features.fit_transform(one_each(learnt)), plain.fit_transform(learnt)
    loaded = TextFeatures.from_state(features.state()).vectorizer
    columns = [loaded.vocabulary_[term] for term in plain.get_feature_names_out()]
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours[:, columns].toarray(), theirs.toarray(), atol=1e-12)
    there = features.transform(one_each(others))
    np.testing.assert_allclose(there[:, columns].toarray(), plain.transform(others).toarray(), atol=1e-12)
    np.testing.assert_allclose(loaded.transform(others).toarray(), there.toarray(), atol=1e-12)


@given(learnt=TEXTS.filter(lambda texts: any(text.strip() for text in texts)), others=TEXTS)
def test_features_that_were_saved_count_as_those_that_were_learnt(
    learnt: list[str], others: list[str]
) -> None:
    features = TextFeatures(TfidfVectorizer(**DEFAULT_KWARGS), LetterGroups(), False)
    features.fit_transform(one_each(learnt))
    again = TextFeatures.from_state(features.state())
    ours, theirs = features.transform(one_each(others)), again.transform(one_each(others))
    np.testing.assert_array_equal(ours.toarray(), theirs.toarray())


def test_a_vectorizer_with_other_arguments_is_asked_itself() -> None:
    texts = ["good film", "good book", "bad film"]
    features = TextFeatures(TfidfVectorizer(min_df=2), None, False)
    np.testing.assert_allclose(
        features.fit_transform(one_each(texts)).toarray(),
        TfidfVectorizer(min_df=2).fit_transform(texts).toarray(),
    )
