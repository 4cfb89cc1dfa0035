"""Replies wait for their offset and for what stands in front of them, and for nothing else."""

from __future__ import annotations

from random import Random

from amemdb.server.outbox import Outbox


def test_without_offsets_everything_leaves_at_once():
    outbox = Outbox()
    outbox.put(b"a", 0)
    outbox.put(b"bc", 0)
    assert outbox
    assert outbox.bytes_waiting == 3
    assert outbox.take(0) == [b"a", b"bc"]
    assert not outbox
    assert outbox.bytes_waiting == 0
    assert outbox.take(0) == []


def test_what_stands_in_front_of_a_gated_reply_leaves_and_what_stands_behind_waits():
    outbox = Outbox()
    outbox.put(b"before", 0)
    outbox.put(b"write", 10)
    outbox.put(b"behind", 0)
    assert outbox.take(9) == [b"before"]
    assert outbox.bytes_waiting == len(b"writebehind")
    assert outbox.take(9) == []
    outbox.put(b"next turn", 0)
    assert outbox.take(10) == [b"write", b"behind", b"next turn"]
    assert outbox.bytes_waiting == 0


def test_replies_of_one_turn_wait_together_and_those_of_the_next_turn_by_themselves():
    outbox = Outbox()
    outbox.put(b"1", 10)
    outbox.put(b"2", 20)
    assert outbox.take(15) == []
    outbox.put(b"3", 30)
    assert outbox.take(20) == [b"1", b"2"]
    assert outbox.take(30) == [b"3"]


def test_an_offset_released_before_the_turn_ends_holds_nothing_up():
    outbox = Outbox()
    outbox.put(b"1", 10)
    assert outbox.take(50) == [b"1"]
    outbox.put(b"2", 50)
    assert outbox.take(50) == [b"2"]


def test_clear_forgets_everything():
    outbox = Outbox()
    outbox.put(b"1", 10)
    outbox.take(0)
    outbox.put(b"2", 20)
    outbox.clear()
    assert not outbox
    assert outbox.take(100) == []


def test_random_histories_keep_order_lose_nothing_and_never_send_too_early():
    for seed in range(300):
        random = Random(seed)
        outbox, put, taken, offset, released = Outbox(), [], [], 0, 0
        for number in range(random.randint(1, 80)):
            if random.random() < 0.7:
                offset += random.choice((0, 0, random.randint(1, 9)))
                put.append((b"%d," % number, offset))
                outbox.put(*put[-1])
            else:
                released = max(released, offset - random.randint(0, 12))
                taken += outbox.take(released)
                due = sum(needed <= released for _, needed in put)
                assert len(taken) <= due, f"seed {seed}: left before its release"
        assert b"".join(taken) + b"".join(outbox.take(offset)) == b"".join(reply for reply, _ in put), f"seed {seed}"
        assert outbox.bytes_waiting == 0
