"""One flush and one send a turn; what waits for the log is sent when it is released."""

from __future__ import annotations

from amemdb.server.turn import Turn
from tests.server.fakes import FakeLog, FakeLoop


class Sender:
    def __init__(self, needs: int = 0) -> None:
        self.needs = needs
        self.sends: list[int] = []

    def send(self, released_offset: int) -> bool:
        self.sends.append(released_offset)
        return released_offset < self.needs


def test_many_senders_share_one_flush_at_the_end_of_the_turn():
    loop, log = FakeLoop(), FakeLog()
    turn = Turn(loop, log)
    senders = [Sender() for _ in range(5)]
    for sender in senders:
        turn.join(sender)
    assert log.flushes == []
    loop.settle()
    assert len(log.flushes) == 1
    assert all(len(sender.sends) == 1 for sender in senders)


def test_touch_flushes_without_a_sender_and_shares_the_turn():
    loop, log = FakeLoop(), FakeLog()
    turn = Turn(loop, log)
    turn.touch()
    turn.join(Sender())
    turn.touch()
    loop.settle()
    assert len(log.flushes) == 1
    turn.touch()
    loop.settle()
    assert len(log.flushes) == 2


def test_released_sends_again_only_to_those_who_still_wait():
    loop, log = FakeLoop(), FakeLog(eager=False)
    turn = Turn(loop, log)
    early, late, free = Sender(10), Sender(20), Sender()
    for sender in (early, late, free):
        turn.join(sender)
    loop.settle()
    log.released_offset = 10
    turn.released()
    log.released_offset = 20
    turn.released()
    turn.released()
    assert (early.sends, late.sends, free.sends) == ([0, 10], [0, 10, 20], [0])


def test_who_has_left_is_not_sent_to_any_more():
    loop, log = FakeLoop(), FakeLog(eager=False)
    turn = Turn(loop, log)
    sender = Sender(10)
    turn.join(sender)
    loop.settle()
    turn.leave(sender)
    log.released_offset = 10
    turn.released()
    assert sender.sends == [0]


def test_joining_while_the_turn_ends_begins_the_next_one():
    loop, log = FakeLoop(), FakeLog()
    turn = Turn(loop, log)

    class Again(Sender):
        def send(self, released_offset: int) -> bool:
            if not self.sends:
                turn.join(self)
            return super().send(released_offset)

    again = Again()
    turn.join(again)
    loop.turn()
    assert len(again.sends) == 1
    loop.turn()
    assert len(again.sends) == 2
    assert len(log.flushes) == 2


def test_a_turn_in_which_the_log_was_not_touched_flushes_nothing():
    loop, log = FakeLoop(), FakeLog()
    log.touched = False
    turn, sender = Turn(loop, log), Sender()
    turn.join(sender)
    loop.settle()
    assert log.flushes == []
    assert sender.sends == [0]
