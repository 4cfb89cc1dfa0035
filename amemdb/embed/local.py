"""Models that run in this process: `sentence-transformers` and `model2vec`, each from a folder or by a name.

Both libraries are extras (`pip install 'amemdb[embed-local]'`) and are imported only when an embedder of their kind
is used. Whether one is there at all is seen at once; loading the model, which takes seconds, is `prepare`. A name that
is no folder is looked up, and if need be downloaded, by the library in its own way.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from amemdb.embed.embedder import Embedder


class LocalEmbedder(Embedder):
    """A model of a library; the kinds below say which and how it is called."""

    library = ""
    package = ""
    """What the library is installed as."""

    def __init__(self, name: str, model: str) -> None:
        """`model` is a folder or a name. Raises `EmbedError` where the library is not installed."""
        super().__init__(name)
        self._source = model
        self._model: Any = None
        if not _is_there(self.library):
            raise self._failed(f"needs the package {self.package}: pip install 'amemdb[embed-local]'")

    def prepare(self) -> None:
        """Load the model, and have it make a first vector: that is slow as well, and tells the dimension."""
        if self._model is not None:
            return
        try:
            self._model = self._load(importlib.import_module(self.library))
        except Exception as error:  # of a library that reads files and the network in ways of its own
            raise self._failed(f"'{self._source}' cannot be loaded: {type(error).__name__}: {error}") from error
        self.embed(["one"])

    def _answer(self, texts: list[str]) -> Any:
        self.prepare()
        try:
            return self._model.encode(list(texts), show_progress_bar=False)
        except Exception as error:
            raise self._failed(f"{type(error).__name__}: {error}", texts_at_fault=True) from error

    def _load(self, library: Any) -> Any:
        raise NotImplementedError


class SentenceTransformersEmbedder(LocalEmbedder):
    """A `SentenceTransformer`; code that comes with a model is not run."""

    library = "sentence_transformers"
    package = "sentence-transformers"
    collect_s = 0.001

    def _load(self, library: Any) -> Any:
        return library.SentenceTransformer(self._source, trust_remote_code=False)


class Model2VecEmbedder(LocalEmbedder):
    """A `StaticModel`: word vectors, averaged; hundreds of times quicker than a transformer."""

    library = package = "model2vec"

    def _load(self, library: Any) -> Any:
        return library.StaticModel.from_pretrained(self._source, force_download=False)  # what is here is taken


def _is_there(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):
        return False
