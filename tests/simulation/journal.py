"""What was asked, in the order in which it was executed, what was answered, and what the log took.

A `Request` is executed when its last byte reaches the server. All that one read brings is a `Delivery`. The model of
`tests/model` takes the requests one after the other once their replies are known, and each reply must be the model's.

What is known of frames: they are in the order of the requests, a read of the server has at most one for each of its
writes, and the offset of the log before and behind the read is known. Which of the writes made none is not told. So of
three writes with two frames, the second one has at least the first, and what is said of it is the least that can be.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hiredis
import msgpack

from amemdb.stores.stores import Stores
from tests.simulation.facts import FactsModel, Orders, orders_of

MISSING = object()
"""No reply is known."""


class Violation(AssertionError):
    """A promise was broken."""


class Request:
    """Something that a client asks.

    `check(reply)` takes the step in the model and compares, as in `tests/model/steps`; `gated` says whether the reply
    tells of data.
    """

    __slots__ = ("argv", "check", "delivery", "gated", "rank", "refused", "reply", "writes")

    def __init__(
        self,
        argv: list[bytes],
        check: Callable[[Any], None],
        *,
        writes: bool = False,
        gated: bool = True,
    ) -> None:
        self.argv = argv
        self.check = check
        self.writes = writes
        self.gated = gated
        self.reply: Any = MISSING
        self.refused = False
        self.delivery: Delivery
        self.rank = 0
        """How many writes of its delivery there are up to this one."""

    def take(self) -> None:
        """Take the step in the model, unless the server refused to."""
        if is_refusal(self.reply):
            self.refused = True
        else:
            self.check(self.reply)


def is_refusal(reply: Any) -> bool:
    """Whether nothing was done because the log cannot be written, or what was done cannot be made durable."""
    return isinstance(reply, hiredis.ReplyError) and "MISCONF" in str(reply)


def is_discard(reply: Any) -> bool:
    """Whether a transaction was not even looked at."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("EXECABORT")


@dataclass(slots=True)
class Delivery:
    """What one read brought: its requests, the time that they saw, the offset of the log before and behind them."""

    now_ms: int
    before: int
    after: int
    requests: list[Request] = field(default_factory=list)
    writes: int = 0
    is_request: bool = True

    def add(self, request: Request) -> None:
        request.delivery = self
        self.writes += request.writes
        request.rank = self.writes
        self.requests.append(request)

    def counts(self, offset: int) -> bool:
        """Whether it has left a trace in a log up to `offset`."""
        return self.before < min(self.after, offset) or not self.is_request


class Journal:
    """Everything since a world began, or since the last restart what belongs to its present life."""

    def __init__(self, model: FactsModel) -> None:
        self.model = model
        self.frames: list[bytes] = []
        self.ends: list[int] = []
        """The offset behind each frame."""
        self._replays: dict[int, tuple[str, Orders]] = {}
        """What the last one gave, by how many frames there were."""
        self._deliveries: list[Delivery] = []
        self._next = 0
        """The first whose requests the model has not all taken."""
        self._next_request = 0
        self._purged_ms = 0
        """When the model has looked for what has ended."""
        self.starts = [pickle.dumps(model)]
        """The model when this life began, or what it may have been."""

    @property
    def offset(self) -> int:
        """Where the last frame ends."""
        return self.ends[-1] if self.ends else 0

    # -- what happens ------------------------------------------------------------------------------

    def appended(self, unit: bytes, count: int) -> None:
        """The log took `count` frames, one behind the other."""
        self._replays.clear()
        base = self.offset
        if count == 1:
            self.frames.append(unit)
            self.ends.append(base + len(unit))
            return
        unpacker = msgpack.Unpacker(max_buffer_size=0)
        unpacker.feed(unit)
        start = 0
        for _ in range(count):
            unpacker.skip()
            end = unpacker.tell()
            self.frames.append(unit[start:end])
            self.ends.append(base + end)
            start = end
        if start != len(unit):
            raise Violation(f"a unit of {len(unit)} bytes holds {count} frames of {start} bytes")

    def delivered(self, delivery: Delivery) -> None:
        """The requests of one read were executed."""
        self._deliveries.append(delivery)

    def happened(self, now_ms: int, offset: int, act: Callable[[], None]) -> None:
        """Something that is no request befell the model at that moment."""
        delivery = Delivery(now_ms, offset, offset, is_request=False)
        request = Request([b"(happened)"], lambda reply: act())
        request.reply = None
        delivery.add(request)
        self._deliveries.append(delivery)

    def advance(self) -> None:
        """Have the model take every request whose reply is known, in order."""
        while self._next < len(self._deliveries):
            delivery = self._deliveries[self._next]
            while self._next_request < len(delivery.requests):
                request = delivery.requests[self._next_request]
                if request.reply is MISSING:
                    return
                self._take(delivery, request)
                self._next_request += 1
            self._next += 1
            self._next_request = 0

    def _take(self, delivery: Delivery, request: Request) -> None:
        if self._purged_ms != delivery.now_ms:
            self._purged_ms = self.model.now = delivery.now_ms
            self.model.purge()
        try:
            request.take()
        except Violation:
            raise
        except AssertionError as error:
            raise Violation(f"{request.argv!r} at {delivery.now_ms} was answered {request.reply!r}: {error}") from error
        self.model.purge()

    # -- promises ----------------------------------------------------------------------------------

    def seen(self, request: Request) -> int:
        """The offset of the log when `request` had run, at least."""
        return self.made(request) or request.delivery.before

    def made(self, request: Request) -> int:
        """The offset behind the last frame that `request` or one before it in its delivery made; 0 if none is known."""
        delivery = request.delivery
        first, last = bisect_right(self.ends, delivery.before), bisect_right(self.ends, delivery.after)
        frames = last - first
        if frames > delivery.writes:
            raise Violation(f"{delivery.writes} writes made {frames} frames: {[one.argv for one in delivery.requests]}")
        count = request.rank - (delivery.writes - frames)
        return self.ends[first + count - 1] if count > 0 else 0

    # -- the end of a life ---------------------------------------------------------------------------

    def forget_unanswered(self) -> None:
        """The process is gone. What it had not come to is as if it was never asked."""
        for delivery in self._deliveries[self._next :]:
            delivery.after = min(delivery.after, self.offset)
            delivery.requests = [request for request in delivery.requests if request.reply is not MISSING]
        self.advance()

    def boundary(self, offset: int) -> int:
        """How many frames end up to `offset`, which must be the end of one."""
        count = bisect_right(self.ends, offset)
        end = self.ends[count - 1] if count else 0
        if end != offset:
            raise Violation(
                f"the log came back up to {offset}, in the middle of a frame ({end} to {self.ends[count:]})"
            )
        return count

    def states(self, offset: int) -> list[bytes]:
        """The states of the model that may be what came back, everything up to `offset`; each to be given to `adopt`.

        More than one only where that is in the middle of a read: which of its requests made which frame is not told.
        What came behind the last frame has left no trace, not even that of the time it saw.
        """
        deliveries = self._deliveries
        count = next((index + 1 for index in reversed(range(len(deliveries))) if deliveries[index].counts(offset)), 0)
        if not count:
            return self.starts
        self.adopt(self.starts[0])
        states = []
        for delivery in deliveries[:count]:
            if delivery.after > offset:
                states.append(pickle.dumps(self.model))
            for request in delivery.requests:
                if not request.refused:
                    self._take(delivery, request)
                if delivery.after > offset:
                    states.append(pickle.dumps(self.model))
        return states or [pickle.dumps(self.model)]

    def adopt(self, state: bytes) -> None:
        """Have the model be in that state."""
        vars(self.model).update(vars(pickle.loads(state)))
        self._purged_ms = 0

    def cut(self, offset: int, states: list[bytes]) -> None:
        """A new life begins with what there was up to `offset`, in one of `states`."""
        count = bisect_right(self.ends, offset)
        del self.frames[count:], self.ends[count:]
        self._deliveries.clear()
        self._next = self._next_request = 0
        self.starts = states

    def begin(self, state: bytes, orders: Orders) -> None:
        """It was this one, and facts were used in this order."""
        self.adopt(state)
        self.model.adopt_orders(orders)
        self.starts = [pickle.dumps(self.model)]

    def digest(self, count: int | None = None) -> str:
        """That of stores in which so many frames were applied, without a file in between."""
        return self._told(count)[0]

    def orders(self, count: int | None = None) -> Orders:
        """The facts that these stores have, those that have ended included, by their last use."""
        return self._told(count)[1]

    def _told(self, count: int | None) -> tuple[str, Orders]:
        count = len(self.frames) if count is None else count
        if count not in self._replays:
            stores = _replayed(self.frames[:count])
            self._replays = {count: (stores.digest(0), orders_of(stores, 0))}
        return self._replays[count]


def _replayed(frames: list[bytes]) -> Stores:
    stores = Stores()
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(b"".join(frames))
    apply = stores.apply
    for _, *records in unpacker:
        for record in records:
            apply(record)
    return stores
