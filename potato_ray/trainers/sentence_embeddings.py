"""Texts as the embeddings of a sentence-transformers model, in the place of a scikit-learn vectorizer.

The model is neither trained nor saved with the run: its id and commit are, or the digest of its folder, and
it is found again by them. It is loaded only for texts whose embeddings are not in the cache.
"""

from __future__ import annotations

import time
from importlib import metadata
from typing import Any, Callable, Mapping, Sequence

from potato_ray.trainers import model_folder
from potato_ray.trainers.base import Param, Reporter, Requirement, TrainerError
from potato_ray.trainers.embedding_cache import EmbeddingCache, cache_folder
from potato_ray.trainers.param_values import problem_with, suggestion
from potato_ray.trainers.pretrained import Source, locate
from potato_ray.trainers.sentence_model import SentenceModel

SHORT_NAME = "sentence-transformers"
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
REQUIRES = (Requirement("sentence_transformers", "sentence-transformers"), Requirement("torch", "torch"))
BATCHES_AT_ONCE = 8
"""After so many batches embeddings are kept, and the progress is told."""
ROWS_AT_ONCE = 512
"""So many rows are predicted at once, that the progress moves."""

WORDS_FROM = 200
"""Train items from which on words say more than they confuse. Macro F1 of review sentences with and without
them: 16 items 0.57 and 0.62, 128 items 0.70 and 0.70, 1,052 items 0.78 and 0.75."""

KWARGS = (
    Param("model_name", "str", DEFAULT_MODEL, "The model: its id on the Hugging Face Hub, or its folder."),
    Param("revision", "str", "", "The commit, branch or tag of a model of the Hub."),
    Param("batch_size", "int", 64, "Texts in a batch.", minimum=1, maximum=4096),
    Param(
        "words",
        "bool",
        None,
        f"Count words and letter groups beside. Left out: from {WORDS_FROM} train items on.",
        optional=True,
    ),
    Param("normalize", "bool", True, "Give all embeddings the length 1."),
    Param("prompt", "str", "", 'What stands before each text, for models that want it, such as "query: ".'),
)


class SentenceEmbeddings:
    """Has what is asked of a vectorizer. `model` is the source once it was found.

    `choose_device` is asked for torch's name of a device when a model is loaded; `reporter` hears of the
    progress, where there is one.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = {param.name: kwargs.get(param.name, param.default) for param in KWARGS}
        self.choose_device: Callable[[], str] = lambda: "cpu"
        self.reporter: Reporter | None = None
        self._source: Source | None = None
        self._digest = ""
        self._loaded: SentenceModel | None = None

    @classmethod
    def of(cls, kwargs: Mapping[str, Any]) -> SentenceEmbeddings:
        """With checked arguments. Raises TrainerError (validation_failed)."""
        problem = problem_with_kwargs(kwargs)
        if problem:
            raise TrainerError("validation_failed", problem, "Correct vectorizer_kwargs.")
        return cls(**kwargs)

    def find(self, tell: Callable[[str], None] | None = None) -> Source:
        """Find the model, or fetch it. Raises TrainerError where it cannot be had."""
        if self._source is None:
            self._source = locate(self.kwargs["model_name"], self.kwargs["revision"], tell)
            if not self._source.revision:
                self._digest = model_folder.digest(self._source.folder)
        return self._source

    def fit_transform(self, texts: Sequence[str]) -> Any:
        """The same as `transform`: nothing is learnt."""
        return self.transform(texts)

    def transform(self, texts: Sequence[str]) -> Any:
        """n_texts × width, float32; each distinct text is computed once, and none that is in the cache."""
        import numpy as np

        texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        cache = EmbeddingCache(cache_folder(), self._identity())
        distinct = list(dict.fromkeys(texts))
        vectors = cache.known(distinct)
        new = [text for text in distinct if text not in vectors]
        if new:
            vectors.update(self._computed(new, cache))
        self._tell_of_cache(len(distinct), len(new), cache)
        return np.stack([vectors[text] for text in texts]) if texts else np.empty((0, 0), dtype=np.float32)

    def wants_words(self, n_train: int) -> bool:
        """Whether words stand beside, with so many train items."""
        asked = self.kwargs["words"]
        return n_train >= WORDS_FROM if asked is None else bool(asked)

    def state(self) -> dict[str, Any]:
        """What has to be saved: plain values."""
        source = self.find()
        return {"kwargs": {**self.kwargs, "revision": source.revision}, "digest": self._digest}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SentenceEmbeddings:
        """What `state` described, with the very model. Raises TrainerError where that is not here."""
        embeddings = cls.of(state["kwargs"])
        source = embeddings.find()
        if embeddings._digest != state["digest"]:
            raise TrainerError(
                "validation_failed",
                f"The model in {source.folder} is not the one this run was trained with: its files differ.",
                "Put the model of that time there, or train again.",
            )
        return embeddings

    def on_card(self) -> dict[str, str]:
        """The model, its commit or the digest of its folder, and the version of the package."""
        source = self.find()
        return {
            "model_name": source.name,
            "revision": source.revision,
            "digest": self._digest,
            "sentence-transformers": metadata.version("sentence-transformers"),
        }

    def _identity(self) -> str:
        """All that the embeddings depend on."""
        source = self.find()
        which = f"{source.name}@{source.revision}" if source.revision else f"folder {self._digest}"
        return f"{which}\n{self.kwargs['normalize']}\n{self.kwargs['prompt']}"

    def _computed(self, texts: Sequence[str], cache: EmbeddingCache) -> dict[str, Any]:
        import numpy as np

        model, vectors = self._model(), {}
        # Long ones first: what takes most memory fails at once, and texts of like length share a batch.
        ordered = sorted(texts, key=len, reverse=True)
        size = self.kwargs["batch_size"]
        progress = _Progress(self.reporter, ordered)
        for start in range(0, len(ordered), size * BATCHES_AT_ONCE):
            some = ordered[start : start + size * BATCHES_AT_ONCE]
            rows = model.encode(some, size, self.kwargs["normalize"], self.kwargs["prompt"])
            if not bool(np.isfinite(rows).all()):
                raise TrainerError(
                    "fit_failed",
                    f"{self.kwargs['model_name']} gives embeddings that are no numbers.",
                    "Choose another model.",
                )
            computed = dict(zip(some, rows))
            cache.keep(computed)
            vectors.update(computed)
            progress.add(some)
        return vectors

    def _model(self) -> SentenceModel:
        if self._loaded is None:
            source = self.find()
            if self.reporter is not None:
                self.reporter.status("fitting", f"loading {source.short}")
            self._loaded = SentenceModel(source.folder, self.choose_device())
        return self._loaded

    def _tell_of_cache(self, n_texts: int, n_new: int, cache: EmbeddingCache) -> None:
        if self.reporter is None:
            return
        kept = f"; {n_texts - n_new} were in {cache.path}" if n_new < n_texts else ""
        self.reporter.log(f"Embeddings of {n_new} of {n_texts} texts computed{kept}")
        if cache.trouble:
            self.reporter.log(
                f"Embeddings are not kept for the next run: {cache.trouble}. Give it a folder with "
                "POTATO_MODEL_CACHE.",
                "warning",
            )


def problem_with_kwargs(kwargs: Mapping[str, Any]) -> str:
    """The first thing that is wrong with vectorizer_kwargs, "" for nothing; imports no library."""
    for name, value in kwargs.items():
        problem = _problem_with(name, value)
        if problem:
            return f"vectorizer_kwargs: {problem}"
    return ""


def _problem_with(name: str, value: Any) -> str:
    """What is wrong with an argument, "" for nothing."""
    known = {param.name: param for param in KWARGS}
    if name not in known:
        return f"{SHORT_NAME} does not take {name}; it takes {', '.join(known)}.{suggestion(name, known)}"
    problem = problem_with(known[name], value)
    return f"{name} {problem}" if problem else ""


class _Progress:
    """Tells how many texts are done; the time that is left goes by their letters."""

    def __init__(self, reporter: Reporter | None, texts: Sequence[str]) -> None:
        self._reporter = reporter
        self._total = len(texts)
        self._letters = sum(map(_cost, texts))
        self._done = 0
        self._letters_done = 0
        self._started = time.monotonic()
        if reporter is not None:
            reporter.status("fitting", f"computing the embeddings of {self._total} texts")

    def add(self, texts: Sequence[str]) -> None:
        self._done += len(texts)
        self._letters_done += sum(map(_cost, texts))
        if self._reporter is not None:
            elapsed_s = time.monotonic() - self._started
            left = (self._letters - self._letters_done) / self._letters_done
            self._reporter.progress(self._done, self._total, round(elapsed_s * left, 1))


def _cost(text: str) -> int:
    return len(text) + 16
