"""AMEM.SEARCH: all that an agent remembers, searched at once. So far that is its facts, by vector."""

from __future__ import annotations

from typing import Any

from amemdb.commands.context import Context
from amemdb.commands.declare import command
from amemdb.commands.semantic import AGENT, TOKENS, K, Recall, Recalled
from amemdb.protocol.reply import BULK, DOUBLE, ArrayOf, Labelled


@command(
    "AMEM.SEARCH",
    AGENT,
    K,
    TOKENS,
    access="read",
    reply=ArrayOf(Labelled(source=BULK, key=BULK, content=BULK, similarity=DOUBLE)),
    family="amem-search",
    summary="The k items of an agent's memory most similar to a vector, best first.",
    cost="O(n d) in the facts and the dimension",
)
def search_all(ctx: Context, agent: bytes, k: int, tokens: list[bytes] | bytes) -> Any:
    """`source` says which store an item is from. An unknown agent has none."""

    def answer(found: Recalled) -> list[tuple[Any, ...]]:
        return [(b"semantic", fact[1], fact[2], similarity) for fact, similarity in found]

    return Recall(agent, k, tokens, None, answer).begin(ctx)
