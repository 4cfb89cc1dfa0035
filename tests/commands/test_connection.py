"""Connection commands: login, protocol, names, RESET, and the list of connections."""

from __future__ import annotations

from typing import Any

import pytest

from amemdb import __version__
from tests.commands.wire import Error, Peer, Status, Text, Wire

SECOND_NS = 1_000_000_000


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def peer(wire: Wire) -> Peer:
    return wire.connect()


# -- PING, ECHO, SELECT, QUIT ------------------------------------------------------------------------


@pytest.mark.parametrize("resp3", [False, True])
def test_ping_answers_a_status_or_repeats_bytes(wire: Wire, resp3: bool) -> None:
    peer = wire.connect(resp3=resp3)
    assert peer.raw("PING") == b"+PONG\r\n"
    assert peer.raw("ping", b"\x00\r\n\xff") == b"$4\r\n\x00\r\n\xff\r\n"
    assert peer("PING", "a", "b") == "ERR wrong number of arguments for 'ping' command"


def test_echo_is_binary_safe(peer: Peer) -> None:
    assert peer("ECHO", bytes(range(256))) == bytes(range(256))
    assert peer("ECHO", "") == b""
    assert isinstance(peer("ECHO"), Error)


@pytest.mark.parametrize("index", ["16", "-1", "9223372036854775807"])
def test_select_refuses_databases_that_are_not_there(peer: Peer, index: str) -> None:
    assert peer("SELECT", 15) == "OK"
    assert peer("SELECT", index) == "ERR DB index is out of range"
    assert peer.session.db == 15


@pytest.mark.parametrize("index", ["", "1.0", " 1", "1_0", "+1", "x", "\u0661"])
def test_select_takes_strict_integers_only(peer: Peer, index: str) -> None:
    assert peer("SELECT", index).startswith("ERR value is not an integer or out of range")
    assert peer.session.db == 0


def test_quit_answers_and_then_closes(peer: Peer) -> None:
    assert peer("QUIT", "now") == "OK"
    assert peer.session.close_after_reply


def test_quit_within_a_transaction_does_not_queue(peer: Peer) -> None:
    peer("MULTI")
    assert peer("QUIT") == "OK"
    assert peer.session.close_after_reply


# -- HELLO -------------------------------------------------------------------------------------------


def test_hello_changes_the_protocol_and_answers_in_it(peer: Peer) -> None:
    told = {
        b"server": b"amemdb",
        b"version": __version__.encode(),
        b"proto": 3,
        b"id": peer.session.id,
        b"mode": b"standalone",
        b"role": b"master",
        b"modules": [],
    }
    assert peer("HELLO", "3") == told
    flat: list[Any] = []
    for label, value in {**told, b"proto": 2}.items():
        flat += [label, value]
    assert peer("HELLO", "2") == flat
    assert peer("HELLO") == flat


@pytest.mark.parametrize("resp3", [False, True])
@pytest.mark.parametrize("version", ["4", "1", "0", "-3", "99"])
def test_an_unknown_protocol_leaves_the_connection_as_it_was(wire: Wire, resp3: bool, version: str) -> None:
    peer = wire.connect(resp3=resp3)
    assert peer("HELLO", version, "SETNAME", "new") == "NOPROTO unsupported protocol version"
    assert (peer.session.resp3, peer.session.name) == (resp3, b"")
    assert peer.raw("CLIENT", "GETNAME") == (b"_\r\n" if resp3 else b"$-1\r\n")


@pytest.mark.parametrize("version", ["three", "3.0", "99999999999999999999", ""])
def test_a_protocol_version_is_an_integer(peer: Peer, version: str) -> None:
    assert peer("HELLO", version) == "ERR Protocol version is not an integer or out of range"


def test_hello_logs_in_and_names_in_one_step() -> None:
    peer = Wire(requirepass="open sesame").connect()
    assert peer("HELLO", "3", "setname", "worker", "Auth", "default", "open sesame")[b"proto"] == 3
    assert (peer.session.name, peer.session.authenticated) == (b"worker", True)
    assert peer("GET", "k") is None


def test_a_refused_hello_changes_nothing() -> None:
    peer = Wire(requirepass="right").connect()
    assert peer("HELLO", "3", "AUTH", "default", "wrong", "SETNAME", "x").startswith("WRONGPASS")
    assert peer("HELLO", "3", "AUTH", "default", "right", "SETNAME", "two words").startswith("ERR client names")
    assert peer("HELLO", "3", "AUTH", "default", "right", "OTHER").startswith("ERR syntax error")
    assert peer("HELLO", "3", "AUTH", "default").startswith("ERR syntax error")
    assert peer("HELLO", "3", "SETNAME", "a", "setname", "b").startswith("ERR syntax error: 'SETNAME' is repeated")
    twice = ("AUTH", "default", "right") * 2
    assert peer("HELLO", "3", *twice).startswith("ERR syntax error: 'AUTH' is repeated")
    assert peer("HELLO", "3").startswith("NOAUTH HELLO must be called with the client already authenticated")
    assert peer("HELLO").startswith("NOAUTH HELLO")
    assert (peer.session.resp3, peer.session.authenticated, peer.session.name) == (False, False, b"")


def test_hello_never_repeats_what_it_was_sent() -> None:
    peer = Wire(requirepass="right").connect()
    for words in (
        ("3", "AUTH", "default", "hunter2", "hunter2"),
        ("3", "hunter2"),
        ("hunter2",),
        ("3", "SETNAME", "hunter2 \n"),
    ):
        assert b"hunter2" not in peer.raw("HELLO", *words)


# -- AUTH --------------------------------------------------------------------------------------------


def test_before_login_only_login_commands_run() -> None:
    wire = Wire(requirepass="pw")
    peer = wire.connect()
    for words in (("PING",), ("GET", "k"), ("MULTI",), ("AMEM.CONV.GET", "s"), ("COMMAND",), ("INFO",)):
        assert peer(*words) == "NOAUTH Authentication required.", words
    assert peer("RESET") == "RESET"
    assert peer("QUIT") == "OK"
    assert peer("AUTH", "pw") == "OK"
    assert peer("PING") == "PONG"


@pytest.mark.parametrize(
    "credentials",
    [("",), ("P",), ("pW",), ("pw ",), (b"pw\x00",), ("default", "no"), ("other", "pw"), ("", "pw"), ("Default", "pw")],
)
def test_a_wrong_password_and_an_unknown_user_answer_alike(credentials: tuple[Any, ...]) -> None:
    wire = Wire(requirepass="pw")
    peer = wire.connect()
    assert peer("AUTH", *credentials) == "WRONGPASS invalid username-password pair or user is disabled."
    assert not peer.session.authenticated
    assert wire.state.logins_failed == 1


def test_a_failed_login_does_not_log_out() -> None:
    peer = Wire(requirepass="pw").connect()
    peer("AUTH", "default", "pw")
    assert peer("AUTH", "no").startswith("WRONGPASS")
    assert peer("PING") == "PONG"


def test_passwords_are_bytes() -> None:
    wire = Wire()
    admin, password = wire.connect(), b"\xff\xfe caf\xc3\xa9"
    assert admin("CONFIG", "SET", "requirepass", password) == "OK"
    assert admin("CONFIG", "GET", "requirepass") == [b"requirepass", password]
    peer = wire.connect()
    assert peer("AUTH", b"\xff caf\xc3\xa9").startswith("WRONGPASS")
    assert peer("AUTH", password) == "OK"


def test_auth_without_a_password_set(peer: Peer) -> None:
    assert peer("AUTH", "x").startswith("ERR AUTH <password> called without any password configured")
    assert peer("AUTH", "default", "anything") == "OK"
    assert peer("AUTH", "somebody", "anything").startswith("WRONGPASS")
    assert peer("AUTH", "a", "b", "c").startswith("ERR syntax error")


def test_a_password_set_later_binds_new_connections_and_one_taken_away_frees_all() -> None:
    wire = Wire()
    before = wire.connect()
    assert before("CONFIG", "SET", "requirepass", "pw") == "OK"
    after = wire.connect()
    assert before("PING") == "PONG"
    assert after("PING").startswith("NOAUTH")
    assert before("CONFIG", "SET", "requirepass", "") == "OK"
    assert after("PING") == "PONG"


# -- RESET -------------------------------------------------------------------------------------------


def test_reset_undoes_everything_but_the_client_library() -> None:
    wire = Wire(requirepass="pw")
    peer = wire.connect()
    peer("HELLO", "3", "AUTH", "default", "pw", "SETNAME", "n")
    for words in (
        ("CLIENT", "SETINFO", "LIB-NAME", "lib"),
        ("SELECT", 3),
        ("WATCH", "k"),
        ("CLIENT", "NO-EVICT", "ON"),
        ("CLIENT", "NO-TOUCH", "ON"),
        ("MULTI",),
        ("PING",),
    ):
        peer(*words)
    session = peer.session
    assert peer.raw("RESET") == b"+RESET\r\n"
    assert (session.resp3, session.db, session.name, session.authenticated) == (False, 0, b"", False)
    assert (session.queue, session.watched, session.no_evict, session.no_touch) == (None, {}, False, False)
    assert session.library_name == b"lib"


def test_reset_is_heard_by_a_silenced_connection(peer: Peer) -> None:
    assert peer.raw("CLIENT", "REPLY", "OFF") == b""
    assert peer.raw("RESET") == b"+RESET\r\n"
    assert peer.raw("PING") == b"+PONG\r\n"


# -- CLIENT: names, modes ------------------------------------------------------------------------------


def test_names_can_be_set_shown_and_taken_away(peer: Peer) -> None:
    assert peer("CLIENT", "GETNAME") is None
    assert peer("CLIENT", "SETNAME", "worker-1") == "OK"
    assert peer("CLIENT", "GETNAME") == b"worker-1"
    assert peer("CLIENT", "SETNAME", "") == "OK"
    assert peer("CLIENT", "GETNAME") is None


@pytest.mark.parametrize("name", [b"a b", b"a\n", b"\r", b"\x7f", b"caf\xc3\xa9", b"\x00", b"x" * 1025])
def test_names_that_would_break_a_line_are_refused(peer: Peer, name: bytes) -> None:
    peer("CLIENT", "SETNAME", "old")
    for words in (
        ("CLIENT", "SETNAME", name),
        ("CLIENT", "SETINFO", "LIB-NAME", name),
        ("CLIENT", "SETINFO", "LIB-VER", name),
        ("HELLO", "2", "SETNAME", name),
    ):
        assert isinstance(peer(*words), Error)
    assert peer("CLIENT", "GETNAME") == b"old"
    assert (peer.session.library_name, peer.session.library_version) == (b"", b"")


def test_setinfo_knows_two_attributes(peer: Peer) -> None:
    assert peer("CLIENT", "SETINFO", "lib-name", "redis-py") == "OK"
    assert peer("CLIENT", "SETINFO", "LIB-VER", "8.1.0") == "OK"
    assert peer("CLIENT", "SETINFO", "lib\r\nx", "1") == (
        "ERR Unrecognized option 'lib??x': expected LIB-NAME or LIB-VER"
    )
    assert "lib-name=redis-py lib-ver=8.1.0" in peer("CLIENT", "LIST").decode()


def test_reply_off_skip_and_on(peer: Peer) -> None:
    assert peer.raw("CLIENT", "REPLY", "SKIP") == b""
    assert peer.raw("PING") == b""
    assert peer.raw("PING") == b"+PONG\r\n"
    assert peer.raw("CLIENT", "REPLY", "OFF") == b""
    assert peer.raw("SET", "k", "v") == b""
    assert peer.raw("CLIENT", "REPLY", "SKIP") == b""
    assert peer.raw("NO-SUCH") == b""
    assert peer.raw("CLIENT", "REPLY", "ON") == b"+OK\r\n"
    assert peer.raw("GET", "k") == b"$1\r\nv\r\n"
    assert isinstance(peer("CLIENT", "REPLY", "MAYBE"), Error)


def test_reply_modes_cannot_tear_a_transaction(peer: Peer) -> None:
    peer("MULTI")
    assert peer("CLIENT", "REPLY", "OFF") == "ERR Command not allowed inside a transaction"
    assert peer("EXEC").startswith("EXECABORT")


@pytest.mark.parametrize("word", ["NO-EVICT", "NO-TOUCH"])
def test_switches(peer: Peer, word: str) -> None:
    letter = {"NO-EVICT": "e", "NO-TOUCH": "T"}[word]
    assert peer("CLIENT", word, "on") == "OK"
    assert f" flags={letter} " in peer("CLIENT", "INFO").decode()
    assert peer("CLIENT", word, "OFF") == "OK"
    assert " flags=N " in peer("CLIENT", "INFO").decode()
    assert isinstance(peer("CLIENT", word, "2"), Error)


def test_unknown_subcommands_name_themselves(peer: Peer) -> None:
    assert peer("CLIENT", "TRACKING\r\n", "ON") == "ERR unknown subcommand 'TRACKING??'. Try CLIENT HELP."
    assert peer("CLIENT") == "ERR wrong number of arguments for 'client' command"
    assert all(isinstance(line, Status) for line in peer("CLIENT", "HELP"))


# -- CLIENT: the list --------------------------------------------------------------------------------


def fields(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split(" "))


def test_a_line_tells_what_is_known(wire: Wire, peer: Peer) -> None:
    peer("HELLO", "3", "SETNAME", "worker")
    peer("SELECT", 2)
    peer("WATCH", "a", "b")
    wire.mono_ns += 90 * SECOND_NS
    other = wire.connect("10.0.0.7:4242")
    other("MULTI")
    other("GET", "k")
    told = peer("CLIENT", "LIST")
    assert isinstance(told, Text)
    first, second, end = told.split("\n")
    assert end == ""
    assert fields(first) == {
        "id": str(peer.session.id), "addr": "127.0.0.1:50001", "laddr": "127.0.0.1:6379", "name": "worker",
        "age": "90", "idle": "90", "flags": "N", "db": "2", "sub": "0", "psub": "0", "ssub": "0", "multi": "-1",
        "watch": "2", "qbuf": "0", "omem": "0", "cmd": "client|list", "user": "default", "redir": "-1", "resp": "3",
        "lib-name": "", "lib-ver": "",
    }  # fmt: skip
    there = fields(second)
    assert (there["flags"], there["multi"], there["cmd"], there["resp"]) == ("x", "1", "multi", "2")
    assert peer("CLIENT", "INFO") == first.replace("client|list", "client|info") + "\n"


def test_a_list_can_be_narrowed(wire: Wire, peer: Peer) -> None:
    others = [wire.connect(f"10.0.0.{n}:1") for n in range(3)]
    ids = [other.session.id for other in others]

    def listed(*words: Any) -> list[int]:
        return [int(fields(line)["id"]) for line in peer("CLIENT", "LIST", *words).decode().splitlines()]

    assert listed("TYPE", "Normal") == [peer.session.id, *ids]
    assert listed("TYPE", "replica") == listed("TYPE", "master") == listed("TYPE", "pubsub") == []
    assert listed("ID", ids[2], 999, ids[0], ids[2]) == [ids[2], ids[0]]
    for words in (
        ("ID",),
        ("ID", "x"),
        ("ID", "0"),
        ("TYPE",),
        ("TYPE", "odd"),
        ("NAME", "x"),
        ("TYPE", "normal", "x"),
    ):
        assert isinstance(peer("CLIENT", "LIST", *words), Error), words


def test_ids_are_never_used_again(wire: Wire) -> None:
    first = wire.connect()
    wire.state.close_session(first.session)
    assert wire.connect()("CLIENT", "ID") == first.session.id + 1


# -- CLIENT KILL -------------------------------------------------------------------------------------


def test_kill_by_address(wire: Wire, peer: Peer) -> None:
    other = wire.connect("10.0.0.7:4242")
    assert peer("CLIENT", "KILL", "10.0.0.7:4243") == "ERR No such client"
    assert wire.killed == []
    assert peer("CLIENT", "KILL", "10.0.0.7:4242") == "OK"
    assert wire.killed == [other.session]
    assert other.session.kill


def test_killing_oneself_answers_first(wire: Wire, peer: Peer) -> None:
    assert peer("CLIENT", "KILL", "127.0.0.1:50001") == "OK"
    assert peer.session.close_after_reply
    assert wire.killed == []


def test_kill_by_filters_answers_how_many(wire: Wire, peer: Peer) -> None:
    wire.mono_ns += 100 * SECOND_NS
    young = wire.connect("10.0.0.7:1")
    assert peer("CLIENT", "KILL", "ID", 999) == 0
    assert peer("CLIENT", "KILL", "TYPE", "pubsub") == 0
    assert peer("CLIENT", "KILL", "MAXAGE", 50) == 0, "SKIPME is yes unless told"
    assert peer("CLIENT", "KILL", "ID", young.session.id, "ADDR", "10.0.0.7:2") == 0, "all filters have to fit"
    assert wire.killed == []
    assert peer("CLIENT", "KILL", "id", young.session.id, "laddr", "127.0.0.1:6379", "user", "default") == 1
    assert wire.killed == [young.session]
    assert peer("CLIENT", "KILL", "MAXAGE", 50, "SKIPME", "no") == 1
    assert peer.session.close_after_reply


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("ID", "x"),
        ("ID", "0"),
        ("ID", "-1"),
        ("MAXAGE", "0"),
        ("MAXAGE", "1.5"),
        ("TYPE", "odd"),
        ("USER", "nobody"),
        ("SKIPME", "perhaps"),
        ("COLOUR", "red"),
        ("ID", "2", "ADDR"),
        ("ID", "2", "ID", "3"),
        ("SKIPME", "no", "skipme", "no"),
    ],
)
def test_a_kill_that_is_refused_kills_nobody(wire: Wire, peer: Peer, words: tuple[str, ...]) -> None:
    wire.connect()
    assert isinstance(peer("CLIENT", "KILL", *words), Error)
    assert wire.killed == []
    assert not peer.session.close_after_reply
