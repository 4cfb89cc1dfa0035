"""Bytes in and out: counted on the way of every read and write, so kept where compiled code reaches them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amemdb import native


class PlainTraffic:
    """Bytes received from and sent to all connections."""

    __slots__ = ("input_bytes", "output_bytes")

    def __init__(self) -> None:
        self.input_bytes = 0
        self.output_bytes = 0


if TYPE_CHECKING or not native.ENABLED:
    Traffic = PlainTraffic
else:
    from amemdb.engine._traffic import Traffic as Traffic
