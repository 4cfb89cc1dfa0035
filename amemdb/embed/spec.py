"""The text that chooses an embedder, as the setting `embedder` and the runtime have it.

    openai:MODEL                            at OpenAI
    openai:MODEL@https://host/v1            at any endpoint that answers as OpenAI's does
    sentence-transformers:NAME or FOLDER    in this process
    model2vec:NAME or FOLDER                in this process
    callable:package.module:function        a function of yours

`#NAME` at the end says under which name its vectors are known, where that shall not be MODEL, NAME, FOLDER or
`package.module:function`: the same model has one name wherever it runs. A spec holds no key: an endpoint's key comes
from the variable `AMEMDB_EMBEDDER_KEY`, or a file; `OPENAI_API_KEY` is sent to OpenAI and nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from amemdb.embed.embedder import Embedder, EmbedError
from amemdb.embed.endpoint import EndpointEmbedder
from amemdb.embed.function import FunctionEmbedder, imported
from amemdb.embed.local import Model2VecEmbedder, SentenceTransformersEmbedder
from amemdb.limits import NAME_BYTES_MAX

OPENAI = "https://api.openai.com/v1"
KEY = "AMEMDB_EMBEDDER_KEY"
OPENAI_KEY = "OPENAI_API_KEY"
KEY_CHARACTERS_MAX = 4096
KINDS = ("openai", "sentence-transformers", "model2vec", "callable")


def embedder_of(spec: str, environ: Mapping[str, str], key_file: str = "", timeout_s: float = 10.0) -> Embedder:
    """The embedder that `spec` chooses. `timeout_s` is that of one call of it, where it calls another machine.

    Raises `EmbedError` for a spec that is none, and for what can be seen to be missing without asking the model.
    """
    given, _, alias = spec.partition("#")
    kind, colon, target = given.partition(":")
    if not colon or kind not in KINDS or not target or not spec.isprintable():
        raise EmbedError(spec, f"expected {', '.join(f'{word}:...' for word in KINDS[:-1])} or {KINDS[-1]}:...")
    name = alias or (target.partition("@")[0] if kind == "openai" else target)
    if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise EmbedError(spec, f"its name is longer than {NAME_BYTES_MAX} bytes")
    if kind == "openai":
        model, at, base = target.partition("@")
        return _endpoint(spec, name, model, base if at else OPENAI, Keys(name, environ, key_file), timeout_s)
    if kind == "sentence-transformers":
        return SentenceTransformersEmbedder(name, target)
    if kind == "model2vec":
        return Model2VecEmbedder(name, target)
    return FunctionEmbedder(name, imported(target))


class Keys:
    """Where the key of an endpoint comes from, looked at anew whenever it is asked for."""

    def __init__(self, name: str, environ: Mapping[str, str], key_file: str) -> None:
        self._name = name
        self._environ = environ
        self._key_file = key_file

    def key(self, to_openai: bool) -> str:
        """The key, or nothing. Raises `EmbedError`, which does not tell the key."""
        if self._key_file:
            try:
                key = Path(self._key_file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not a text"
                raise EmbedError(self._name, f"the file of its key cannot be read: {reason}") from None
        else:
            key = self._environ.get(KEY, "") or (self._environ.get(OPENAI_KEY, "") if to_openai else "")
        key = key.strip()
        if not (key.isascii() and key.isprintable() and len(key) <= KEY_CHARACTERS_MAX and " " not in key):
            raise EmbedError(self._name, "its key is not one word of printable ASCII")
        return key


def _endpoint(spec: str, name: str, model: str, base: str, keys: Keys, timeout_s: float) -> EndpointEmbedder:
    parts = _split(spec, base)
    if not model:
        raise EmbedError(spec, "expected the name of a model before the @")
    to_openai = (parts.scheme, parts.hostname) == ("https", urlsplit(OPENAI).hostname)
    key = partial(keys.key, to_openai)
    key()  # a file that cannot be read is told at once
    return EndpointEmbedder(name, model, parts, key, timeout_s)


def _split(spec: str, base: str) -> SplitResult:
    """The base address, if it is one. Its parts are not told where a password may stand in it."""
    try:
        parts = urlsplit(base)
        fits = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:
        fits = False
    if not fits or parts.query or not base.isascii() or " " in base:
        raise EmbedError(spec.partition("@")[0], "expected an address like https://host/v1 behind the @")
    if parts.username is not None:
        raise EmbedError(spec.partition("@")[0], "its address holds a user or password: give the key apart from it")
    return parts
