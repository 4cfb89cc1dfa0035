"""One connection against a transport and a loop that the test moves by hand."""

from __future__ import annotations

import pytest

from amemdb.server.connection import CROSS_PROTOCOL
from amemdb.server.farewell import LINGER_BYTES_MAX
from amemdb.server.pump import SLICE_REQUESTS_MAX, UNSENT_HIGH
from tests.server.fakes import START_MS, BugShown, Rig, pending


def line(*words: str) -> bytes:
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(w), w.encode()) for w in words)])


# -- requests and replies ------------------------------------------------------------------------


def test_a_pipeline_is_answered_in_order_by_one_write_after_one_flush():
    rig = Rig()
    connection, transport = rig.connect()
    connection.data_received(b"".join(line("ECHO", str(n)) for n in range(50)))
    assert transport.writes == []
    rig.loop.settle()
    assert transport.writes == [b"".join(b"+ECHO %d\r\n" % n for n in range(50))]
    assert len(rig.log.flushes) == 1


def test_two_reads_of_one_turn_are_answered_by_one_write():
    rig = Rig()
    connection, transport = rig.connect()
    connection.data_received(line("A"))
    connection.data_received(line("B"))
    rig.loop.settle()
    assert transport.writes == [b"+A\r\n+B\r\n"]


def test_connections_of_one_turn_share_one_flush():
    rig = Rig()
    pairs = [rig.connect() for _ in range(5)]
    for connection, _ in pairs:
        connection.data_received(line("A"))
    rig.loop.settle()
    assert [transport.writes for _, transport in pairs] == [[b"+A\r\n"]] * 5
    assert len(rig.log.flushes) == 1


def test_requests_cut_at_any_byte_are_the_same_requests():
    data = line("SET", "k", "a\r\nb") + line("PING")
    for cut in range(1, len(data)):
        rig = Rig()
        connection, transport = rig.connect()
        connection.data_received(data[:cut])
        rig.loop.settle()
        connection.data_received(data[cut:])
        rig.loop.settle()
        assert transport.sent == b"+SET k a\r\nb\r\n+PING\r\n", f"cut at {cut}"
        assert rig.engine.executed == [[b"SET", b"k", b"a\r\nb"], [b"PING"]]


def test_a_request_that_is_not_complete_is_never_executed():
    rig = Rig()
    connection, transport = rig.connect()
    connection.data_received(line("SET", "k", "value")[:-1])
    rig.loop.settle()
    assert connection.session.query_bytes > 0
    connection.eof_received()
    rig.loop.settle()
    transport.lose()
    assert rig.engine.executed == []


def test_the_clock_is_read_once_for_a_read_of_the_socket():
    rig = Rig()
    connection, _ = rig.connect()
    rig.engine.scripts[b"A"] = lambda session, argv: rig.hand.pass_s(0.000_01) or b"+a\r\n"
    connection.data_received(line("A") * 20)
    assert rig.engine.times == [START_MS + 1000] * 20


# -- slices --------------------------------------------------------------------------------------


def test_others_get_their_turn_between_the_slices_of_a_long_pipeline():
    rig = Rig()
    greedy, greedy_transport = rig.connect()
    other, other_transport = rig.connect()
    greedy.data_received(line("G") * (3 * SLICE_REQUESTS_MAX))
    assert len(rig.engine.executed) == SLICE_REQUESTS_MAX
    assert not greedy_transport.reading, "read on while requests are left over"
    other.data_received(line("O"))
    rig.loop.turn()
    assert other_transport.sent == b"+O\r\n"
    assert len(rig.engine.executed) <= 2 * SLICE_REQUESTS_MAX + 1
    rig.loop.settle()
    assert greedy_transport.sent == b"+G\r\n" * (3 * SLICE_REQUESTS_MAX)
    assert greedy_transport.reading


def test_a_slice_ends_after_a_slow_request():
    rig = Rig()
    connection, transport = rig.connect()
    rig.engine.scripts[b"SLOW"] = lambda session, argv: rig.hand.pass_s(0.002) or b"+slow\r\n"
    connection.data_received(line("SLOW") * 5)
    assert len(rig.engine.executed) == 1
    rig.loop.settle()
    assert transport.sent == b"+slow\r\n" * 5


def test_a_later_slice_reads_the_clock_again():
    rig = Rig()
    connection, _ = rig.connect()
    rig.engine.scripts[b"SLOW"] = lambda session, argv: rig.hand.pass_s(0.5) or b"+slow\r\n"
    connection.data_received(line("SLOW") * 3)
    rig.loop.settle()
    assert rig.engine.times == [START_MS + 1000, START_MS + 1500, START_MS + 2000]


# -- the log -------------------------------------------------------------------------------------


def test_a_reply_waits_for_its_release_with_everything_behind_it_and_nothing_before():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    other, other_transport = rig.connect()
    connection.data_received(line("FIRST") + line("W") + line("LAST"))
    other.data_received(line("O"))
    rig.loop.settle()
    assert transport.sent == b"+FIRST\r\n"
    assert other_transport.sent == b"+O\r\n", "another connection waited for a write that is not its own"
    rig.release()
    assert transport.sent == b"+FIRST\r\n+written\r\n+LAST\r\n"


def test_a_reply_does_not_leave_with_the_release_of_earlier_frames():
    rig = Rig(eager=False)
    rig.writes(10)
    connection, transport = rig.connect()
    connection.data_received(line("W"))
    rig.loop.settle()
    connection.data_received(line("W"))
    rig.loop.settle()
    rig.release(9)
    assert transport.sent == b""
    rig.release(10)
    assert transport.sent == b"+written\r\n"
    rig.release(20)
    assert transport.sent == b"+written\r\n" * 2


def test_a_release_after_the_connection_is_gone_does_no_harm():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    connection.data_received(line("W"))
    rig.loop.settle()
    transport.lose()
    rig.release()
    assert transport.sent == b""


def test_replies_that_the_log_holds_back_stop_the_execution_of_more():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    rig.engine.scripts[b"BIG"] = lambda session, argv: b"." * 300_000
    connection.data_received(line("W") + line("BIG") * 20)
    rig.loop.settle()
    done = len(rig.engine.executed)
    assert done < 8
    assert not transport.reading
    rig.release()
    rig.loop.settle()
    assert len(rig.engine.executed) == 21
    assert len(transport.sent) == len(b"+written\r\n") + 20 * 300_000
    assert transport.reading


# -- work off the loop ---------------------------------------------------------------------------


def test_a_reply_worked_out_in_a_thread_keeps_its_place():
    rig = Rig()
    connection, transport = rig.connect()
    other, other_transport = rig.connect()
    rig.engine.scripts[b"SEARCH"] = lambda s, argv: pending(s, argv, lambda: 41, lambda n: b":%d\r\n" % (n + 1))
    connection.data_received(line("A") + line("SEARCH") + line("B"))
    rig.loop.settle()
    assert transport.sent == b"+A\r\n"
    assert not transport.reading
    other.data_received(line("O"))
    rig.loop.settle()
    assert other_transport.sent == b"+O\r\n"
    rig.loop.work.pop().finish()
    rig.loop.settle()
    assert transport.sent == b"+A\r\n:42\r\n+B\r\n"
    assert transport.reading


def test_work_may_lead_to_more_work():
    rig = Rig()
    connection, transport = rig.connect()
    rig.engine.scripts[b"TWICE"] = lambda s, argv: pending(
        s, argv, lambda: 1, lambda n: pending(s, argv, lambda: n + 1, lambda m: b":%d\r\n" % m)
    )
    connection.data_received(line("TWICE") + line("B"))
    for _ in range(2):
        rig.loop.settle()
        rig.loop.work.pop().finish()
    rig.loop.settle()
    assert transport.sent == b":2\r\n+B\r\n"


def test_work_whose_client_has_gone_is_dropped():
    rig = Rig()
    connection, transport = rig.connect()
    finished = []
    rig.engine.scripts[b"SEARCH"] = lambda s, argv: pending(s, argv, lambda: 1, finished.append)
    connection.data_received(line("SEARCH") + line("B"))
    transport.lose()
    rig.loop.work.pop().finish()
    rig.loop.settle()
    assert finished == []
    assert len(rig.engine.executed) == 1
    assert rig.engine.forgotten == [connection.session]


# -- peers that do not read ------------------------------------------------------------------------


def test_a_peer_that_does_not_read_gets_no_more_requests_executed_until_it_does():
    rig = Rig()
    rig.engine.scripts[b"GET"] = lambda session, argv: b"." * 100_000
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("GET") * 1000)
    rig.loop.settle()
    held = transport.get_write_buffer_size()
    assert UNSENT_HIGH < held < 3 * UNSENT_HIGH
    assert not transport.reading
    executed = len(rig.engine.executed)
    assert executed < 40
    transport.drain(500_000)
    rig.loop.settle()
    assert len(rig.engine.executed) == executed, "went on before the output had drained"
    while len(rig.engine.executed) < 1000:
        transport.drain()
        assert rig.loop.settle()
    assert len(transport.sent) == 100_000_000
    transport.drain()
    rig.loop.settle()
    assert transport.reading


def test_a_peer_that_reads_nothing_for_too_long_is_cut_and_counted():
    rig = Rig(stall_ns=30_000_000_000)
    rig.engine.scripts[b"GET"] = lambda session, argv: b"." * 2_000_000
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("GET"))
    rig.loop.settle()
    for _ in range(30):
        rig.listener.sweep(rig.hand.ns)
        rig.hand.pass_s(1)
    assert not transport.closing
    transport.drain(1)
    rig.listener.sweep(rig.hand.ns)
    rig.hand.pass_s(30)
    rig.listener.sweep(rig.hand.ns)
    assert not transport.closing, "cut although it had read a byte"
    rig.hand.pass_s(1)
    rig.listener.sweep(rig.hand.ns)
    assert transport.aborted
    assert rig.state.stall_cuts == 1
    assert rig.state.output_limit_cuts == 0
    transport.lose()
    assert rig.state.sessions == {}


def test_waiting_for_the_log_is_no_stall():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    connection.data_received(line("W"))
    rig.loop.settle()
    for _ in range(100):
        rig.hand.pass_s(1)
        rig.listener.sweep(rig.hand.ns)
    rig.release()
    assert transport.sent == b"+written\r\n"


def test_more_output_than_the_limit_cuts_the_connection_and_is_counted():
    rig = Rig(output_bytes_max=3_000_000)
    rig.engine.scripts[b"GET"] = lambda session, argv: b"." * int(argv[1])
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("GET", "2500000"))
    rig.loop.settle()
    assert not transport.closing
    transport.drain()
    connection.data_received(line("GET", "3500000") + line("AFTER"))
    rig.loop.settle()
    assert transport.aborted
    assert rig.state.output_limit_cuts == 1
    assert [b"AFTER"] not in rig.engine.executed


def test_client_list_sees_what_waits():
    rig = Rig()
    rig.engine.scripts[b"GET"] = lambda session, argv: b"." * 500_000
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("GET") + b"*1\r\n$9\r\nhal")
    rig.loop.settle()
    rig.listener.sweep(rig.hand.ns)
    assert connection.session.output_bytes == 500_000
    assert connection.session.query_bytes == len(b"*1\r\n$9\r\nhal")
    assert rig.state.traffic.input_bytes == len(line("GET") + b"*1\r\n$9\r\nhal")
    assert rig.state.traffic.output_bytes == 500_000


# -- the end of a connection -----------------------------------------------------------------------


def test_a_protocol_error_comes_after_the_earlier_replies_and_nothing_after_it_is_executed():
    rig = Rig()
    connection, transport = rig.connect()
    connection.data_received(line("A") + b"*1\r\n:1\r\n" + line("B"))
    rig.loop.settle()
    assert transport.sent == b"+A\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    assert transport.ended, "the peer has to see the end"
    assert not transport.aborted
    assert rig.engine.executed == [[b"A"]]
    assert rig.state.protocol_errors == 1
    assert rig.state.sessions == {}
    transport.protocol.data_received(line("C"))
    rig.loop.settle()
    assert rig.engine.executed == [[b"A"]]


def test_a_protocol_error_waits_behind_a_write_that_is_not_released():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    connection.data_received(line("W") + b"*x\r\n")
    rig.loop.settle()
    assert transport.sent == b""
    assert not transport.ended
    rig.release()
    assert transport.sent.startswith(b"+written\r\n-ERR Protocol error: ")
    assert transport.ended


@pytest.mark.parametrize("word", [b"POST", b"post", b"Host:", b"HOST:", b"pOsT"])
def test_a_browser_is_hung_up_on(word, caplog):
    rig = Rig()
    connection, transport = rig.connect()
    connection.data_received(word + b" / HTTP/1.1\r\nSET k v\r\n")
    rig.loop.settle()
    assert word in CROSS_PROTOCOL
    assert transport.aborted
    assert transport.sent == b""
    assert rig.engine.executed == []
    assert "possible attack" in caplog.text


def test_quit_is_answered_and_what_follows_is_not_executed():
    rig = Rig()
    connection, transport = rig.connect()

    def quit_(session, argv):
        session.close_after_reply = True
        return b"+OK\r\n"

    rig.engine.scripts[b"QUIT"] = quit_
    connection.data_received(line("A") + line("QUIT") + line("B"))
    rig.loop.settle()
    assert transport.sent == b"+A\r\n+OK\r\n"
    assert transport.ended
    assert rig.engine.executed[-1] == [b"QUIT"]


def test_a_peer_that_has_sent_its_last_still_gets_its_replies():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    connection.data_received(line("W"))
    assert connection.eof_received()
    rig.loop.settle()
    assert not transport.closing
    rig.release()
    assert transport.sent == b"+written\r\n"
    assert transport.closing
    assert not transport.aborted


def test_a_lingering_peer_is_given_a_second_and_no_endless_input():
    rig = Rig()
    first, transport = rig.connect()
    first.data_received(b"*x\r\n")
    rig.loop.settle()
    rig.listener.sweep(rig.hand.ns)
    assert not transport.closing
    rig.hand.pass_s(1.1)
    rig.listener.sweep(rig.hand.ns)
    assert transport.aborted

    second, transport = rig.connect()
    second.data_received(b"*x\r\n")
    rig.loop.settle()
    chunk = b"." * 1_000_000
    for _ in range(LINGER_BYTES_MAX // len(chunk)):
        transport.protocol.data_received(chunk)
    assert not transport.closing
    transport.protocol.data_received(chunk)
    assert transport.aborted


def test_a_lingering_peer_that_has_not_read_its_replies_is_cut_by_the_stall_time_only():
    rig = Rig(stall_ns=30_000_000_000)
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("A") + b"*x\r\n")
    rig.loop.settle()
    rig.listener.sweep(rig.hand.ns)
    rig.hand.pass_s(20)
    rig.listener.sweep(rig.hand.ns)
    assert not transport.closing
    rig.hand.pass_s(20)
    rig.listener.sweep(rig.hand.ns)
    assert transport.aborted


def test_killed_by_another_closes_at_once_and_by_itself_after_the_reply():
    rig = Rig()
    _, victim_transport = rig.connect()
    killer, killer_transport = rig.connect()

    def kill(session, argv):
        for target in list(rig.state.sessions.values()):
            rig.state.kill(target)
        return b":2\r\n"

    rig.engine.scripts[b"KILL"] = kill
    killer.data_received(line("KILL") + line("B"))
    assert victim_transport.aborted
    rig.loop.settle()
    assert killer_transport.sent == b":2\r\n"
    assert killer_transport.ended
    assert rig.engine.executed == [[b"KILL"]]


def test_a_gone_connection_is_forgotten_everywhere_once():
    rig = Rig()
    connection, transport = rig.connect()
    connection.data_received(line("A"))
    transport.lose()
    rig.loop.settle()
    connection.connection_lost(None)
    assert rig.engine.forgotten == [connection.session]
    assert rig.state.sessions == {}
    assert transport.sent == b""


def test_idle_connections_are_closed_by_the_monotonic_clock():
    rig = Rig(idle_ns=10_000_000_000)
    idle, idle_transport = rig.connect()
    busy, busy_transport = rig.connect()
    for _ in range(10):
        rig.hand.pass_s(1)
        busy.data_received(line("A"))
        rig.loop.settle()
        rig.listener.sweep(rig.hand.ns)
    assert not idle_transport.closing
    rig.hand.pass_s(1)
    rig.listener.sweep(rig.hand.ns)
    assert idle_transport.aborted
    assert not busy_transport.closing
    assert rig.state.idle_timeouts == 1
    assert idle.session.id != busy.session.id


def test_a_connection_that_waits_for_its_reply_is_not_idle():
    rig = Rig(idle_ns=1_000_000_000)
    rig.engine.scripts[b"SEARCH"] = lambda s, argv: pending(s, argv, lambda: 1, lambda n: b"+done\r\n")
    connection, transport = rig.connect()
    connection.data_received(line("SEARCH"))
    rig.hand.pass_s(60)
    rig.listener.sweep(rig.hand.ns)
    assert not transport.closing
    rig.loop.work.pop().finish()
    rig.loop.settle()
    rig.listener.sweep(rig.hand.ns)
    assert not transport.closing


# -- too many, and not logged in -----------------------------------------------------------------


def test_one_connection_too_many_is_told_so_and_a_place_that_is_free_again_is_given():
    rig = Rig(clients_max=2)
    (_, first), (_, second) = rig.connect(), rig.connect()
    _, refused = rig.connect()
    assert refused.sent == b"-ERR max number of clients reached\r\n"
    assert refused.ended
    refused.protocol.data_received(line("SET", "k", "v"))
    rig.loop.settle()
    assert rig.engine.executed == []
    assert (rig.state.connections_received, rig.state.connections_rejected) == (2, 1)
    first.lose()
    third, transport = rig.connect()
    third.data_received(line("A"))
    rig.loop.settle()
    assert transport.sent == b"+A\r\n"
    assert not second.closing


def test_a_login_lifts_the_limits_for_the_request_behind_it_and_a_logout_brings_them_back():
    rig = Rig()
    rig.state.config.set_many([("requirepass", "s")])
    connection, transport = rig.connect()

    def login(session, argv):
        session.authenticated = argv[0] == b"AUTH"
        return b"+OK\r\n"

    rig.engine.scripts[b"AUTH"] = rig.engine.scripts[b"RESET"] = login
    large = "x" * 20_000
    connection.data_received(line("AUTH", "s") + line("SET", large))
    rig.loop.settle()
    assert transport.sent.startswith(b"+OK\r\n+SET ")
    connection.data_received(line("RESET") + line("SET", large))
    rig.loop.settle()
    assert transport.sent.endswith(b"+OK\r\n-ERR Protocol error: unauthenticated bulk length\r\n")


# -- bugs ----------------------------------------------------------------------------------------


def test_a_bug_in_a_command_is_reported_with_the_request_that_showed_it():
    rig = Rig()
    connection, transport = rig.connect()

    def broken(session, argv):
        raise KeyError(argv[1])

    rig.engine.scripts[b"BAD"] = broken
    with pytest.raises(BugShown):
        connection.data_received(line("A") + line("BAD", "k") + line("B"))
    [(error, argv)] = rig.bugs
    assert isinstance(error, KeyError)
    assert argv == [b"BAD", b"k"]
    assert [b"B"] not in rig.engine.executed
    assert transport.sent == b""


def test_a_bug_in_a_thread_or_in_what_follows_is_reported_even_when_the_client_has_gone():
    for where in ("work", "finish"):
        rig = Rig()
        connection, transport = rig.connect()

        def broken(*_):
            raise IndexError("out")

        work = broken if where == "work" else lambda: 1
        rig.engine.scripts[b"BAD"] = lambda s, argv, work=work: pending(s, argv, work, broken)
        connection.data_received(line("BAD"))
        if where == "work":
            transport.lose()
        with pytest.raises(BugShown):
            rig.loop.work.pop().finish()
        assert isinstance(rig.bugs[0][0], IndexError)
        assert rig.bugs[0][1] == [b"BAD"]


def test_stop_executes_nothing_more_and_lets_replies_out():
    rig = Rig(eager=False)
    rig.writes()
    connection, transport = rig.connect()
    rig.engine.scripts[b"STOP"] = lambda session, argv: rig.listener.stop() or b""
    connection.data_received(line("W") + line("STOP") + line("B"))
    rig.loop.settle()
    assert rig.listener.owes_replies
    connection.data_received(line("C"))
    rig.release()
    rig.loop.settle()
    assert transport.sent == b"+written\r\n"
    assert not rig.listener.owes_replies
    assert [argv[0] for argv in rig.engine.executed] == [b"W", b"STOP"]
