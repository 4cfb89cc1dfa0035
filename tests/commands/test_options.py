"""What every command says to a word that is none of its options, and to a span of time that is no number."""

from __future__ import annotations

import pytest

from amemdb.commands.declare import REGISTRY, Arg, Choice, Integer, Role, Spec, Vector
from amemdb.limits import TTL_SECONDS_MAX
from tests.commands.wire import Peer, Wire

WITH_OPTIONS = sorted(name for name, spec in REGISTRY.items() if spec.options)


@pytest.fixture
def peer() -> Peer:
    return Wire().connect(resp3=True)


def least(spec: Spec) -> list[bytes]:
    """A request without options that its parser takes."""
    argv = [word.encode() for word in spec.name.split("|")]
    for argument in spec.positionals:
        argv += [b"FP32", b"\0\0\0\0"] if isinstance(argument, Vector) else [_value(argument)]
    return argv


def _value(argument: Arg) -> bytes:
    if isinstance(argument, Role):
        return b"user"
    if isinstance(argument, Choice):
        return argument.words[0].encode()
    return b"%d" % max(1, argument.minimum) if isinstance(argument, Integer) else b"1"


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_a_stray_word_is_named_together_with_the_options_that_there_are(peer: Peer, name: str) -> None:
    spec = REGISTRY[name]
    said = peer(*least(spec), b"Stray")
    assert said.startswith("ERR syntax error: unexpected 'Stray', expected ")
    told = said.partition(", expected ")[2].partition(";")[0].replace(" or ", ", ").split(", ")
    assert told == spec.option_words


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("AMEM.CONV.CREATE s 50", "unexpected '50', expected WINDOW, TTL, PXAT or NX"),
        ("AMEM.CONV.APPEND s user Hello world", "unexpected 'world', expected ID, AT or META; quote texts with blanks"),
        ("AMEM.SUMMARY.SET a Likes tea", "unexpected 'tea', expected IFVERSION; quote texts with blanks"),
        ("SET k two words", "unexpected 'words', expected NX, XX, GET, EX, PX, EXAT, PXAT or KEEPTTL; quote texts"),
    ],
)
def test_what_people_get_wrong_at_first(peer: Peer, line: str, said: str) -> None:
    assert peer(*line.split()).startswith(f"ERR syntax error: {said}")


@pytest.mark.parametrize("value", ["1h", "0", "-5", "1.5", "", str(TTL_SECONDS_MAX + 1), "9" * 30])
def test_a_life_span_is_whole_seconds_and_the_refusal_says_so(peer: Peer, value: str) -> None:
    expected = f"ERR TTL must be a whole number of seconds from 1 to {TTL_SECONDS_MAX}, got '{value}'"
    assert peer("AMEM.CONV.CREATE", "s", "TTL", value) == expected


@pytest.mark.parametrize("value", ["tomorrow", "1.5", "", "9" * 18])
def test_a_moment_is_unix_milliseconds_and_the_refusal_says_so(peer: Peer, value: str) -> None:
    expected = f"ERR PXAT must be a whole number of Unix milliseconds, at most 100 years ahead, got '{value}'"
    assert peer("AMEM.CONV.CREATE", "s", "PXAT", value) == expected


def test_plain_keys_keep_the_words_of_redis(peer: Peer) -> None:
    assert peer("SET", "k", "v", "EX", "1h") == "ERR value is not an integer or out of range"
    assert peer("SET", "k", "v", "PX", "0") == "ERR invalid expire time in 'set' command"
