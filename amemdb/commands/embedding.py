"""Vectors that the server makes: `EMBED` of a store and `TEXT` of a recall.

A vector is made outside, takes as long as a model takes, and comes back as if the client had sent it: the command
waits, its connection with it, and nobody else does. Then the gates are passed again and everything is looked up again,
as the namespace may be another or gone. Nothing has been changed before, so an embedder that fails leaves no trace.

A vector is only ever compared with those of its own model. The model's name is kept with the namespace, from CREATE or
from the first store that names one (EMBED names the embedder's), and what is of another model is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amemdb.commands.context import Awaited, Context, Embedder
from amemdb.commands.recall import check_model
from amemdb.errors import CommandError, printable
from amemdb.limits import EMBED_TEXT_BYTES_MAX

FLOAT_BYTES = 4
RECORD_BYTES_MAX = 64
"""What the records take beyond names and vectors, for the room that is asked for."""


def embedder_for(ctx: Context, word: str, tokens: list[bytes] | bytes, model: bytes | None) -> Embedder:
    """The server's embedder, where `word` asks for it instead of a vector, and `model` is nothing else's name."""
    if tokens:
        raise CommandError(f"syntax error: {word} makes the vector, so none can be given")
    embedder = ctx.server.embedder
    if embedder is None:
        raise CommandError(f"{word} needs an embedder, and none is set: see the setting embedder")
    if model is not None and model != embedder.model:
        raise CommandError(f"the embedder is '{printable(embedder.model)}', not '{printable(model)}'")
    return embedder


def embedded(
    ctx: Context,
    embedder: Embedder,
    agent: bytes,
    content: bytes,
    argument: str,
    go_on: Callable[[Context, bytes], Any],
) -> Awaited:
    """Wait for the vector of `content`, then answer what `go_on` does with it, as a vector that was sent.

    What can be seen to be in vain is refused before the model is asked.
    """
    text = _text(content, argument)
    _require_fit(ctx, embedder, agent, embedder.dim)

    def begin(tell: Callable[[Any], None]) -> None:
        embedder.begin(text, tell)

    def finish(ctx: Context, result: bytes | CommandError) -> Any:
        if isinstance(result, CommandError):
            raise result
        _require_fit(ctx, embedder, agent, len(result) // FLOAT_BYTES)
        return go_on(ctx, result)

    return Awaited(begin, finish)


def require_room_for(ctx: Context, vector: bytes, model: bytes) -> None:
    """Make sure of room in the log for what was not sent with the request."""
    ctx.require_room(len(vector) + len(model) + RECORD_BYTES_MAX)


def _text(content: bytes, argument: str) -> str:
    if len(content) > EMBED_TEXT_BYTES_MAX:
        raise CommandError(
            f"{argument} must be at most {EMBED_TEXT_BYTES_MAX} bytes to be embedded, got {len(content)}"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{argument} must be UTF-8 to be embedded, got '{printable(content)}'") from None
    if not text.strip():
        raise CommandError(f"{argument} must not be empty to be embedded")
    return text


def _require_fit(ctx: Context, embedder: Embedder, agent: bytes, dim: int) -> None:
    """Refuse vectors of `dim` components (0: not known yet) of this embedder where the namespace has others."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        return
    check_model(namespace, embedder.model)
    if dim and dim != namespace.dim:
        made = f"embedder '{printable(embedder.model)}' makes vectors of {dim} components"
        raise CommandError(f"{made}, and this semantic memory has {namespace.dim}")
