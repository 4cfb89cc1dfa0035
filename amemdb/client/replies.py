"""Replies as Python values, the same for RESP2 and RESP3 and for decoded and undecoded text.

A shape is a function from what redis-py read to what a method returns. Labels are always `str`, numbers always numbers;
text stays `bytes`, or `str` with `decode_responses`. The table of shapes, `_replies`, is generated from the
declarations; `callback` makes of each one a response callback of redis-py, which runs for a method, for
`execute_command("AMEM.…")` and for each command of a pipeline alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from amemdb.client.errors import UndecodableReply

Shape = Callable[[Any], Any]

THEN = "amem_then"
"""Option of `execute_command`: a function that makes something richer of the shaped reply (`amemdb.client.results`)."""


def callback(shape: Shape) -> Callable[..., Any]:
    """`shape` as redis-py calls it."""

    def shaped(reply: Any, **options: Any) -> Any:
        then = options.get(THEN)
        try:
            value = shape(reply)
            return value if then is None else then(value)
        except ValueError as error:
            raise UndecodableReply(f"the reply cannot be read: {error}") from error

    return shaped


def unchanged(reply: Any) -> Any:
    """An integer, a text, or None."""
    return reply


def ok(reply: Any) -> bool:
    """True for OK."""
    return reply in (b"OK", "OK")


def boolean(reply: Any) -> bool:
    """1 and 0."""
    return bool(reply)


def word(reply: Any) -> str | None:
    """Text of the protocol's own vocabulary, which is never the user's bytes."""
    return reply.decode("ascii") if isinstance(reply, bytes) else reply


def double(reply: Any) -> float | None:
    """RESP3 has numbers, RESP2 their text."""
    return None if reply is None else float(reply)


def cursor(reply: Any) -> int:
    """The cursor of a SCAN."""
    return int(reply)


def array(item: Shape) -> Shape:
    """A list of one shape."""
    if item is unchanged:
        return unchanged

    def shape(reply: Any) -> Any:
        return None if reply is None else [item(element) for element in reply]

    return shape


def fixed(*items: Shape) -> Shape:
    """A tuple of one shape each."""

    def shape(reply: Any) -> Any:
        return None if reply is None else tuple(item(element) for item, element in zip(items, reply, strict=True))

    return shape


def mapping(reply: Any) -> Any:
    """Pairs with the user's own keys."""
    return None if reply is None else dict(_pairs(reply))


def labelled(**fields: Shape) -> Shape:
    """A dict by label. A label that this client does not know is kept, with its value as it came."""
    labels = {label.encode(): label for label in fields}
    conversions = {label: item for label, item in fields.items() if item is not unchanged}

    def shape(reply: Any) -> Any:
        if reply is None:
            return None
        found = {labels.get(label) or word(label): value for label, value in _pairs(reply)}
        for label, item in conversions.items():
            if label in found:
                found[label] = item(found[label])
        return found

    return shape


def _pairs(reply: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(reply, dict):
        return reply.items()
    elements = iter(reply)
    return zip(elements, elements, strict=True)
