"""Long replies and long commands on a connection: in order, bounded, and over when the connection is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from amemdb.commands.context import Sliced
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.engine import Engine
from amemdb.server.connection import PARTS_BYTES_MAX
from amemdb.server.pump import UNSENT_HIGH
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.stores import Stores
from tests.server.fakes import BugShown, FakeTransport, Rig
from tests.server.test_connection import line

PIECE = b"." * 60_000


class Long:
    """Replies in parts to the word `LONG`, and what was made of them."""

    def __init__(self, rig: Rig, pieces: int, spent_s: float = 0.0) -> None:
        self.rig = rig
        self.pieces = pieces
        self.spent_s = spent_s
        self.made = 0
        self.over: list[int] = []
        rig.engine.scripts[b"LONG"] = self.reply

    def reply(self, session: Any, argv: list[bytes]) -> Parts:
        return Parts(argv, None, self._made(), Graveyard(), lambda: self.rig.hand.ns, self.over.append)

    def _made(self) -> Iterator[bytes]:
        for _ in range(self.pieces):
            self.rig.hand.pass_s(self.spent_s)
            self.made += 1
            yield PIECE


def size(transport: FakeTransport) -> int:
    return sum(map(len, transport.writes))


# -- parts -----------------------------------------------------------------------------------------


def test_a_reply_in_parts_keeps_its_place_and_others_are_served_in_between():
    rig = Rig()
    long = Long(rig, 100)
    connection, transport = rig.connect()
    other, other_transport = rig.connect()
    connection.data_received(line("A") + line("LONG") + line("B") + line("LONG") + line("C"))
    turns = 0
    while rig.loop.ready:
        made = long.made
        other.data_received(line("O"))
        rig.loop.turn()
        assert long.made - made <= PARTS_BYTES_MAX // len(PIECE) + 1, "too much in one turn"
        turns += 1
    assert transport.sent == b"+A\r\n" + PIECE * 100 + b"+B\r\n" + PIECE * 100 + b"+C\r\n"
    assert turns >= 2 * 100 * len(PIECE) // (PARTS_BYTES_MAX + len(PIECE))
    assert other_transport.sent == b"+O\r\n" * turns
    assert len(long.over) == 2
    assert transport.reading


def test_a_slice_of_pieces_that_take_long_to_make_is_a_millisecond():
    rig = Rig()
    long = Long(rig, 50, spent_s=0.0004)
    connection, transport = rig.connect()
    connection.data_received(line("LONG"))
    while rig.loop.ready:
        made = long.made
        rig.loop.turn()
        assert long.made - made <= 3
    assert transport.sent == PIECE * 50
    assert long.over == [50 * 400_000]


def test_what_arrives_meanwhile_waits():
    rig = Rig()
    long = Long(rig, 100)
    connection, transport = rig.connect()
    connection.data_received(line("LONG"))
    rig.loop.turn()
    assert not transport.reading
    connection.data_received(line("B"))
    rig.loop.turn()
    assert [b"B"] not in rig.engine.executed
    assert long.made < 100
    rig.loop.settle()
    assert transport.sent == PIECE * 100 + b"+B\r\n"


def test_a_peer_that_does_not_read_costs_no_more_than_what_it_may_have_waiting():
    rig = Rig()
    long = Long(rig, 10_000)
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("LONG") + line("B"))
    rig.loop.settle()
    bound = (UNSENT_HIGH + 2 * PARTS_BYTES_MAX) // len(PIECE) + 2
    assert long.made <= bound
    for _ in range(100):
        transport.drain(50_000)
        rig.loop.settle()
        assert long.made <= bound + size(transport) // len(PIECE)
        assert transport.get_write_buffer_size() <= UNSENT_HIGH + 2 * PARTS_BYTES_MAX
    while transport.get_write_buffer_size() or rig.loop.ready:
        transport.drain()
        rig.loop.settle()
    assert size(transport) == 10_000 * len(PIECE) + len(b"+B\r\n")
    assert transport.reading


def test_a_peer_that_stops_reading_in_the_middle_is_cut_as_any_other():
    rig = Rig(stall_ns=30_000_000_000, idle_ns=5_000_000_000)
    long = Long(rig, 10_000)
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("LONG"))
    rig.loop.settle()
    for _ in range(40):
        rig.listener.sweep(rig.hand.ns)
        rig.hand.pass_s(1)
    assert transport.aborted
    assert (rig.state.stall_cuts, rig.state.output_limit_cuts, rig.state.idle_timeouts) == (1, 0, 0)
    made = long.made
    transport.lose()
    rig.loop.settle()
    assert long.made == made
    assert len(long.over) == 1


def test_a_long_transfer_is_no_idleness():
    rig = Rig(idle_ns=5_000_000_000)
    long = Long(rig, 200)
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("LONG"))
    while not long.over or transport.get_write_buffer_size():
        rig.loop.settle()
        transport.drain()
        rig.hand.pass_s(2)
        rig.listener.sweep(rig.hand.ns)
        assert not transport.closing
    rig.hand.pass_s(6)
    rig.listener.sweep(rig.hand.ns)
    assert transport.aborted
    assert rig.state.idle_timeouts == 1


def test_all_parts_wait_until_the_log_has_released_what_they_tell_of():
    rig = Rig(eager=False)
    long = Long(rig, 100)

    def reply(session: Any, argv: list[bytes]) -> Parts:
        rig.log.append(b"." * 10)
        session.reply_offset = rig.log.offset
        return long.reply(session, argv)

    rig.engine.scripts[b"LONG"] = reply
    connection, transport = rig.connect()
    connection.data_received(line("A") + line("LONG") + line("B"))
    rig.loop.settle()
    assert transport.sent == b"+A\r\n"
    assert long.made <= (UNSENT_HIGH + PARTS_BYTES_MAX) // len(PIECE) + 2, "made ahead of the log without end"
    rig.release(5)
    rig.loop.settle()
    assert transport.sent == b"+A\r\n"
    rig.release()
    rig.loop.settle()
    assert transport.sent == b"+A\r\n" + PIECE * 100 + b"+B\r\n"


def test_a_connection_that_is_lost_makes_no_more_parts():
    rig = Rig()
    long = Long(rig, 100)
    connection, transport = rig.connect()
    connection.data_received(line("LONG") + line("B"))
    rig.loop.turn()
    made = long.made
    transport.lose()
    rig.loop.settle()
    assert long.made == made
    assert len(long.over) == 1
    assert [b"B"] not in rig.engine.executed
    assert rig.engine.forgotten == [connection.session]
    assert not connection.owes_replies


def test_a_connection_that_is_killed_makes_no_more_parts():
    rig = Rig()
    long = Long(rig, 100)
    connection, transport = rig.connect()
    connection.data_received(line("LONG"))
    rig.loop.turn()
    made = long.made
    rig.state.kill(connection.session)
    assert transport.aborted
    rig.loop.settle()
    assert long.made == made
    transport.lose()
    assert len(long.over) == 1
    assert rig.state.sessions == {}


def test_a_stop_lets_the_reply_out_whole_and_executes_nothing_more():
    rig = Rig()
    long = Long(rig, 100)
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("LONG") + line("B"))
    rig.loop.settle()
    rig.listener.stop()
    rig.loop.settle()
    assert long.made < 100
    assert rig.listener.owes_replies
    while connection.owes_replies:
        transport.drain()
        rig.loop.settle()
    assert transport.sent == PIECE * 100
    assert transport.ended
    assert [b"B"] not in rig.engine.executed


def test_a_peer_that_has_sent_its_last_gets_all_parts():
    rig = Rig()
    Long(rig, 100)
    connection, transport = rig.connect()
    connection.data_received(line("LONG"))
    connection.eof_received()
    rig.loop.settle()
    assert transport.sent == PIECE * 100
    assert transport.closing
    assert not transport.aborted


def test_a_bug_in_the_making_of_a_part_is_told_with_its_request():
    rig = Rig()

    def made() -> Iterator[bytes]:
        yield PIECE
        raise KeyError("out")

    rig.engine.scripts[b"LONG"] = lambda session, argv: Parts(argv, None, made(), Graveyard(), lambda: 0, print)
    connection, _ = rig.connect()
    connection.data_received(line("LONG", "k"))
    with pytest.raises(BugShown):
        rig.loop.settle()
    [(error, argv)] = rig.bugs
    assert isinstance(error, KeyError)
    assert argv == [b"LONG", b"k"]


# -- slices ----------------------------------------------------------------------------------------


class SlicedEngine:
    """Answers `STEPS n` in that many turns, everything else as the engine that it replaces."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.steps = 0
        self.closed = 0
        rig.engine.scripts[b"STEPS"] = self.begin
        rig.engine.resume = self.resume

    def begin(self, session: Any, argv: list[bytes]) -> Pending:
        return Pending(session, None, argv, Sliced(self._run(int(argv[1]))), 0)  # type: ignore[arg-type]

    def resume(self, pending: Pending, result: Any, now_ms: int) -> Any:
        value = pending.deferred.advance(lambda: True)  # type: ignore[union-attr]
        return pending if value is pending.deferred else value

    def _run(self, count: int) -> Generator[None, None, bytes]:
        try:
            for _ in range(count):
                self.steps += 1
                yield
            return b"+done\r\n"
        finally:
            self.closed += 1


def test_a_command_in_slices_keeps_its_place_and_others_are_served_in_between():
    rig = Rig()
    sliced = SlicedEngine(rig)
    connection, transport = rig.connect()
    other, other_transport = rig.connect()
    connection.data_received(line("A") + line("STEPS", "20") + line("B"))
    turns = 0
    while rig.loop.ready:
        before = sliced.steps
        other.data_received(line("O"))
        rig.loop.turn()
        assert sliced.steps - before <= 1
        turns += 1
    assert transport.sent == b"+A\r\n+done\r\n+B\r\n"
    assert other_transport.sent == b"+O\r\n" * turns
    assert transport.reading


def test_slices_end_with_their_connection():
    for end in ("lose", "kill"):
        rig = Rig()
        sliced = SlicedEngine(rig)
        connection, transport = rig.connect()
        connection.data_received(line("STEPS", "1000") + line("B"))
        rig.loop.turn()
        rig.loop.turn()
        if end == "kill":
            rig.state.kill(connection.session)
        transport.lose()
        steps = sliced.steps
        rig.loop.settle()
        assert sliced.steps == steps
        assert sliced.closed == 1, "it is kept although nobody waits for it"
        assert rig.state.sessions == {}


def test_slices_are_gone_on_with_when_the_server_stops():
    rig = Rig()
    SlicedEngine(rig)
    connection, transport = rig.connect()
    connection.data_received(line("STEPS", "50") + line("B"))
    rig.loop.turn()
    rig.listener.stop()
    assert rig.listener.owes_replies
    rig.loop.settle()
    assert transport.sent == b"+done\r\n"
    assert transport.ended


# -- with the engine -------------------------------------------------------------------------------


def test_from_the_request_to_the_last_byte_with_a_log_that_gates_reads():
    stores = Stores()
    rig = Rig(eager=False)
    rig.log.gates_reads = True
    engine = Engine(stores, rig.log, rig.state, lambda: rig.hand.ns)
    rig.host.engine = engine
    connection, transport = rig.connect()
    value = "v" * 3_000_000
    connection.data_received(line("SET", "k", value) + line("GET", "k") + line("HELLO", "3") + line("KEYS", "*"))
    rig.loop.settle()
    assert transport.sent == b""
    rig.release()
    rig.loop.settle()
    start = b"+OK\r\n$3000000\r\n" + value.encode() + b"\r\n"
    assert transport.sent.startswith(start)
    assert transport.sent.endswith(b"*1\r\n$1\r\nk\r\n")
    assert transport.reading
