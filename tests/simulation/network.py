"""The network of a world: connections whose bytes come late, in pieces, and not in the order of other connections'.

Within a connection nothing is reordered or lost, unless it is cut: then what was under way in either direction is gone.
A reply counts as told once the server has given it to its transport, whether it arrives or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis
from rig import request as packed

from amemdb.server.connection import Connection
from tests.server.fakes import FakeTransport
from tests.simulation.journal import Delivery, Request

if TYPE_CHECKING:
    from tests.simulation.world import World

ALL = 1 << 62
"""An offset behind everything."""


class Transport(FakeTransport):
    """The server's end."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def write(self, data: Any) -> None:
        assert not self.closing, "written after the end"
        assert not self.ended, "written after the end"
        self._link.left(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def write_eof(self) -> None:
        super().write_eof()
        self._link.end_soon()

    def close(self) -> None:
        super().close()
        self._link.end_soon()

    def abort(self) -> None:
        super().abort()
        self._link.end_soon()


class Link:
    """One connection, from the client's side."""

    def __init__(self, world: World, name: str, *, journaled: bool = True) -> None:
        """With `journaled` the model takes what is asked here, and what is told is a promise."""
        self._world = world
        self._journaled = journaled
        self._name = name
        self._unread: deque[tuple[Request, int]] = deque()
        """What has not wholly arrived at the server, each with the position of its end in the stream."""
        self._stream = b""
        self._sent = 0
        """Bytes ever sent."""
        self._arriving = False
        self._answered = hiredis.Reader()
        self._waiting: deque[Request] = deque()
        """Executed, and not answered."""
        self.outstanding = 0
        """Sent, and the reply has not arrived."""
        self.is_open = True
        self._transport = Transport(self)
        self._connection = Connection(world.life.node.host, world.life.node.listener)
        self._transport.protocol = self._connection
        self._connection.connection_made(self._transport)
        world.links.append(self)

    def send(self, requests: Sequence[Request]) -> None:
        """Send requests behind what was sent before."""
        for request in requests:
            data = packed(request.argv)
            self._stream += data
            self._sent += len(data)
            self._unread.append((request, self._sent))
        self.outstanding += len(requests)
        self._have_more_arrive()

    def send_now(self, requests: Sequence[Request]) -> None:
        """Send requests that reach the server at once."""
        self._arriving = True
        self.send(requests)
        self._arriving = False
        self.deliver(len(self._stream))

    # -- towards the server --------------------------------------------------------------------------

    def _have_more_arrive(self) -> None:
        if self._stream and not self._arriving:
            self._arriving = True
            self._world.schedule.after(self._world.delay_ns(), self._arrive)

    def _arrive(self) -> None:
        """Some or all of what is under way reaches the server."""
        self._arriving = False
        if not self.is_open:
            return
        random = self._world.random
        if self._transport.reading:
            count = len(self._stream)
            if random.random() < self._world.profile.pieces:
                count = random.randint(1, count)
            self.deliver(count)
        self._have_more_arrive()

    def deliver(self, count: int) -> None:
        """The first `count` bytes that are under way reach the server, in one read."""
        data, self._stream = self._stream[:count], self._stream[count:]
        if self._connection._ending or not self._connection._open:
            return  # nothing is executed any more
        position = self._sent - len(self._stream)
        world = self._world
        life = world.life
        delivery = Delivery(life.now_ms(), life.offset(), 0)
        while self._unread and self._unread[0][1] <= position:
            request, _ = self._unread.popleft()
            delivery.add(request)
            self._waiting.append(request)
        if delivery.requests and self._journaled and world.checks:
            world.journal.delivered(delivery)
        world.note("arrives", self._name, len(data), delivery.before)
        delivery.after = ALL  # until it is known; if the process ends here, it never is
        self._transport.protocol.data_received(data)
        delivery.after = life.offset()
        if self.is_open and self._journaled:
            assert self._connection._pending is None, "a request of the model is answered later"
            assert not self._connection._scheduled, "a read of the model is executed in slices"

    # -- from the server -----------------------------------------------------------------------------

    def left(self, data: bytes) -> None:
        """Replies have left the server."""
        world = self._world
        answered = self._parsed(data)
        world.note("answers", self._name, data)
        world.schedule.after(world.delay_ns(), self._received, len(answered))
        if self._journaled and world.checks:
            for request in answered:
                world.told(request)
            world.journal.advance()

    def _parsed(self, data: bytes) -> list[Request]:
        """The requests that `data` answers."""
        reader, found = self._answered, []
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            request = self._waiting.popleft()
            request.reply = reply
            found.append(request)
        return found

    def _received(self, count: int) -> None:
        self.outstanding -= count

    # -- the end -------------------------------------------------------------------------------------

    def find_replies(self) -> None:
        """Look, without anybody being told, at how the server would have answered what it has executed."""
        self._parsed(b"".join(self._connection._outbox.take(ALL)))

    def end_soon(self) -> None:
        """The server ends it."""
        self._world.schedule.after(0, self.cut)

    def cut(self) -> None:
        """The connection is gone, whoever has ended it."""
        if not self.is_open:
            return
        self.is_open = False
        self._world.note("cut", self._name)
        self._world.links.remove(self)
        self.find_replies()
        assert not self._waiting or not self._journaled, "executed, and without a reply"
        self._transport.lose()
        if self._world.checks:
            self._world.journal.advance()
