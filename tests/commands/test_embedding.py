"""EMBED and TEXT: vectors that the server's embedder makes, and everything that keeps a wrong one out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hiredis
import numpy as np
import pytest

from amemdb.commands.context import Awaited
from amemdb.engine.answers import Pending
from amemdb.errors import CommandError
from amemdb.limits import EMBED_TEXT_BYTES_MAX
from amemdb.stores import records
from tests.rig import Rig, decode

VECTORS = {"north": [0, 1, 0], "south": [0, -1, 0], "northish": [0.1, 0.9, 0], "flat": [0, 0, 0]}


class Fake:
    """An embedder that answers at once, or when the test lets it."""

    def __init__(self) -> None:
        self.model = b"compass"
        self.dim = 0
        self.held = False
        self.asked: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.failure: CommandError | None = None
        self.resets = 0

    def begin(self, text: str, tell: Callable[[bytes | CommandError], None]) -> None:
        self.asked.append(text)
        vector = np.array(VECTORS.get(text, [1, 0, 0]), "<f4").tobytes()
        answer = lambda: tell(self.failure or vector)  # noqa: E731
        if self.held:
            self.waiting.append(answer)
        else:
            answer()

    def lines(self) -> list[tuple[str, object]]:
        return [("model", self.model.decode()), ("last_error", "two\r\nlines")]

    def reset(self) -> None:
        self.resets += 1


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def rig(fake: Fake) -> Rig:
    rig = Rig()
    rig.state.embedder = fake
    rig("AMEM.SEM.CREATE", "a", 3, "MODEL", "compass")
    return rig


def refused(rig: Rig, *words: Any) -> str:
    frames = len(rig.log.frames)
    reply = rig(*words)
    assert isinstance(reply, hiredis.ReplyError), reply
    assert len(rig.log.frames) == frames, "a refusal was logged"
    return str(reply).removeprefix("ERR ")


def keys(reply: Any) -> list[bytes]:
    return [item[1] for item in reply]


# -- storing and recalling ---------------------------------------------------------------------------


def test_embed_stores_what_the_embedder_makes(rig, fake):
    assert rig("AMEM.SEM.STORE", "a", "n", "north", "EMBED", "SOURCE", "map", "TTL", 60) == b"OK"
    assert rig("AMEM.SEM.STORE", "a", "s", "south", "TRUST", "trusted", "embed", "META", '{"x":1}') == b"OK"
    assert fake.asked == ["north", "south"]
    assert rig("AMEM.SEM.GET", "a", "n", "WITHVECTOR")[-1] == [b"0", b"1", b"0"]
    assert rig("AMEM.SEM.GET", "a", "n")[5] == b"map"
    assert keys(rig("AMEM.SEM.RECALL", "a", 2, "FP32", np.array([0, 1, 0], "<f4").tobytes())) == [b"n", b"s"]
    rig.restart()
    assert rig("AMEM.SEM.GET", "a", "s", "WITHVECTOR")[-1] == [b"0", b"-1", b"0"]


def test_text_recalls_by_the_vector_of_the_text(rig):
    for key in ("north", "south"):
        rig("AMEM.SEM.STORE", "a", key, key, "EMBED")
    assert keys(rig("AMEM.SEM.RECALL", "a", 2, "TEXT", "northish")) == [b"north", b"south"]
    found = rig("AMEM.SEM.RECALL", "a", 2, "WITHMETA", "TEXT", "northish", "THRESHOLD", "0.5")
    assert keys(found) == [b"north"]
    assert b"stored_at" in found[0]


def test_the_vector_of_a_text_and_its_words_are_fused_by_hybrid(rig):
    for key in ("north", "south"):
        rig("AMEM.SEM.STORE", "a", key, key, "EMBED")
    found = rig("AMEM.SEM.RECALL", "a", 2, "TEXT", "northish", "HYBRID", "south")
    assert sorted(keys(found)) == [b"north", b"south"]
    assert b"lexical" in found[0]


def test_without_an_embedder_a_text_is_found_by_its_words(rig, fake):
    rig("AMEM.SEM.STORE", "a", "n", "north by northwest", 1, 0, 0)
    rig.state.embedder = None
    assert keys(rig("AMEM.SEM.RECALL", "a", 2, "TEXT", "northwest")) == [b"n"]
    assert fake.asked == []


def test_an_answer_that_is_known_to_be_empty_asks_no_model(rig, fake):
    assert rig("AMEM.SEM.RECALL", "a", 3, "TEXT", "north") == []
    assert rig("AMEM.SEM.RECALL", "nobody", 3, "TEXT", "north") == []
    rig("AMEM.SEM.STORE", "a", "n", "north", "EMBED")
    assert rig("AMEM.SEM.RECALL", "a", 0, "TEXT", "north") == []
    assert fake.asked == ["north"]


def test_sixteen_bits_are_the_truth_for_what_is_embedded_as_well(rig):
    rig("AMEM.SEM.CREATE", "half", 3, "QUANT", "f16")
    rig("AMEM.SEM.STORE", "half", "n", "northish", "EMBED")
    stored = [float(text) for text in rig("AMEM.SEM.GET", "half", "n", "WITHVECTOR")[-1]]
    assert stored == pytest.approx(np.array([0.1, 0.9, 0], np.float16).tolist(), abs=1e-7)
    assert stored[0] != pytest.approx(0.1, abs=1e-6)


def test_reads_emit_nothing(rig):
    rig("AMEM.SEM.CREATE", "b", 3)
    rig("AMEM.SEM.STORE", "b", "n", "north", 0, 1, 0)
    assert rig.frames_of("AMEM.SEM.RECALL", "b", 1, "TEXT", "north") == []
    assert model_of(rig, "b") is None


# -- models ------------------------------------------------------------------------------------------


def model_of(rig: Rig, agent: str) -> Any:
    info = rig("AMEM.SEM.INFO", agent)
    return info[info.index(b"model") + 1]


def test_the_first_embedding_gives_a_memory_its_model(rig):
    rig("AMEM.SEM.CREATE", "b", 3)
    (frame,) = rig.frames_of("AMEM.SEM.STORE", "b", "n", "north", "EMBED")
    assert [record[0] for record in frame] == [records.NAMESPACE_MODEL_SET, records.FACT_STORED]
    assert model_of(rig, "b") == b"compass"
    (frame,) = rig.frames_of("AMEM.SEM.STORE", "b", "s", "south", "EMBED")
    assert [record[0] for record in frame] == [records.FACT_STORED]
    rig.restart()
    assert model_of(rig, "b") == b"compass"
    assert "already exists" in refused(rig, "AMEM.SEM.CREATE", "b", 3, "MODEL", "other")


def test_a_model_that_a_client_names_first_is_kept_as_well(rig):
    rig("AMEM.SEM.CREATE", "b", 3)
    rig("AMEM.SEM.STORE", "b", "x", "text", 1, 0, 0, "MODEL", "of-its-own")
    assert model_of(rig, "b") == b"of-its-own"
    assert "of model 'of-its-own', not of 'compass'" in refused(rig, "AMEM.SEM.STORE", "b", "n", "north", "EMBED")


def test_the_model_survives_a_dump(rig):
    rig("AMEM.SEM.CREATE", "b", 3)
    rig("AMEM.SEM.STORE", "b", "n", "north", "EMBED")
    created = next(iter(rig.stores.sem.dump(b"b", rig.now_ms)))
    assert created[0] == records.NAMESPACE_CREATED
    assert b"compass" in created


def test_a_memory_of_another_model_is_left_alone(rig, fake):
    rig("AMEM.SEM.CREATE", "other", 3, "MODEL", "globe")
    rig("AMEM.SEM.STORE", "other", "x", "text", 1, 0, 0)
    told = "semantic memory has vectors of model 'globe', not of 'compass'"
    assert told in refused(rig, "AMEM.SEM.STORE", "other", "n", "north", "EMBED")
    assert told in refused(rig, "AMEM.SEM.RECALL", "other", 1, "TEXT", "north")
    assert fake.asked == []


def test_a_model_that_is_named_has_to_be_the_embedders(rig, fake):
    assert rig("AMEM.SEM.STORE", "a", "n", "north", "EMBED", "MODEL", "compass") == b"OK"
    told = "the embedder is 'compass', not 'globe'"
    assert told in refused(rig, "AMEM.SEM.STORE", "a", "n", "north", "EMBED", "MODEL", "globe")
    assert told in refused(rig, "AMEM.SEM.RECALL", "a", 1, "TEXT", "north", "MODEL", "globe")
    assert fake.asked == ["north"]


def test_a_memory_of_another_dimension_is_refused(rig, fake):
    rig("AMEM.SEM.CREATE", "wide", 4)
    told = "embedder 'compass' makes vectors of 3 components, and this semantic memory has 4"
    assert told in refused(rig, "AMEM.SEM.STORE", "wide", "n", "north", "EMBED")
    assert len(fake.asked) == 1
    fake.dim = 3  # known by now: the model is not asked in vain again
    assert told in refused(rig, "AMEM.SEM.STORE", "wide", "n", "north", "EMBED")
    assert len(fake.asked) == 1
    assert model_of(rig, "wide") is None


def test_a_vector_without_direction_is_refused_and_leaves_no_trace(rig):
    rig("AMEM.SEM.CREATE", "b", 3)
    assert "all zeros" in refused(rig, "AMEM.SEM.STORE", "b", "f", "flat", "EMBED")
    assert model_of(rig, "b") is None


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("AMEM.SEM.STORE", "a", "n", "north", "EMBED"), ("AMEM.SEM.RECALL", "a", 1, "TEXT", "north")]
)
def test_an_embedder_that_fails_is_told_and_nothing_happens(rig, fake, words):
    rig("AMEM.SEM.STORE", "a", "x", "text", 1, 0, 0)
    fake.failure = CommandError("embedder 'compass': no answer within 10 s")
    assert refused(rig, *words) == "embedder 'compass': no answer within 10 s"
    fake.failure = None
    assert not isinstance(rig(*words), hiredis.ReplyError)


def test_without_an_embedder_it_is_said_what_is_missing(rig):
    rig.state.embedder = None
    told = refused(rig, "AMEM.SEM.STORE", "a", "n", "north", "EMBED")
    assert told == "EMBED needs an embedder, and none is set: see the setting embedder"


def test_a_vector_and_a_text_exclude_each_other(rig):
    raw = np.ones(3, "<f4").tobytes()
    for vector in ((1, 0, 0), ("FP32", raw)):
        assert "so none can be given" in refused(rig, "AMEM.SEM.STORE", "a", "n", "north", *vector, "EMBED")
        assert "so none can be given" in refused(rig, "AMEM.SEM.RECALL", "a", 1, *vector, "TEXT", "north")


def test_an_unknown_memory_is_not_found(rig, fake):
    assert "not found" in refused(rig, "AMEM.SEM.STORE", "nobody", "n", "north", "EMBED")
    assert fake.asked == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "must not be empty"),
        (b" \n\t ", "must not be empty"),
        (b"\xff\xfe", "must be UTF-8"),
        (b"x" * (EMBED_TEXT_BYTES_MAX + 1), "must be at most 262144 bytes to be embedded, got 262145"),
    ],
)
def test_a_text_that_no_model_reads_is_refused(rig, fake, content, told):
    rig("AMEM.SEM.STORE", "a", "x", "text", 1, 0, 0)
    assert f"content {told}" in refused(rig, "AMEM.SEM.STORE", "a", "n", content, "EMBED")
    assert f"text {told}" in refused(rig, "AMEM.SEM.RECALL", "a", 1, "TEXT", content)
    assert fake.asked == []


def test_inside_a_transaction_no_model_is_asked(rig, fake):
    rig("AMEM.SEM.STORE", "a", "x", "text", 1, 0, 0)
    rig("MULTI")
    rig("AMEM.SEM.STORE", "a", "n", "north", "EMBED")
    rig("AMEM.SEM.RECALL", "a", 1, "TEXT", "north")
    rig("AMEM.SEM.STORE", "a", "s", "south", 0, -1, 0)
    stored, recalled, last = rig("EXEC")
    for error in (stored, recalled):
        assert isinstance(error, hiredis.ReplyError)
        assert str(error) == "ERR Command not allowed inside a transaction: its answer has to be waited for"
    assert last == b"OK"
    assert fake.asked == []
    assert rig("AMEM.SEM.LIST", "a") == [b"x", b"s"]


# -- what happens meanwhile --------------------------------------------------------------------------


def pending(rig: Rig, *words: Any) -> Pending:
    argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    answer = rig.engine.execute(rig.session, argv, rig.now_ms)
    assert isinstance(answer, Pending)
    assert answer.awaited is not None
    return answer


def resumed(rig: Rig, answer: Pending) -> Any:
    """Go on with what the embedder has answered by now."""
    told: list[Any] = []
    assert isinstance(answer.awaited, Awaited)
    answer.awaited.begin(told.append)
    rig.log.asked = 0
    reply = rig.engine.resume(answer, told[0], rig.now_ms)
    while isinstance(reply, Pending):
        reply = rig.engine.resume(reply, reply.work(), rig.now_ms)
    assert isinstance(reply, bytes)
    return decode(reply)


def test_a_memory_that_is_gone_meanwhile_is_not_found(rig):
    answer = pending(rig, "AMEM.SEM.STORE", "a", "n", "north", "EMBED")
    rig("AMEM.SEM.DROP", "a")
    assert "not found" in str(resumed(rig, answer))
    rig.restart()


def test_a_memory_that_is_another_meanwhile_is_looked_at_anew(rig):
    answers = [pending(rig, "AMEM.SEM.STORE", "a", key, "north", "EMBED") for key in ("one", "two", "three")]
    rig("AMEM.SEM.DROP", "a")
    rig("AMEM.SEM.CREATE", "a", 4)
    assert "makes vectors of 3 components, and this semantic memory has 4" in str(resumed(rig, answers[0]))
    rig("AMEM.SEM.DROP", "a")
    rig("AMEM.SEM.CREATE", "a", 3, "MODEL", "globe")
    assert "of model 'globe'" in str(resumed(rig, answers[1]))
    rig("AMEM.SEM.DROP", "a")
    rig("AMEM.SEM.CREATE", "a", 3)
    assert resumed(rig, answers[2]) == b"OK"
    assert model_of(rig, "a") == b"compass"
    rig.restart()


def test_two_that_wait_both_store_and_set_the_model_once(rig):
    rig("AMEM.SEM.CREATE", "b", 3)
    answers = [pending(rig, "AMEM.SEM.STORE", "b", key, "north", "EMBED") for key in ("one", "two")]
    assert [resumed(rig, answer) for answer in answers] == [b"OK", b"OK"]
    assert rig("AMEM.SEM.LIST", "b") == [b"one", b"two"]
    rig.restart()


def test_a_recall_sees_what_was_stored_while_it_waited(rig):
    rig("AMEM.SEM.STORE", "a", "x", "text", 1, 0, 0)
    answer = pending(rig, "AMEM.SEM.RECALL", "a", 1, "TEXT", "north")
    rig("AMEM.SEM.STORE", "a", "n", "north", 0, 1, 0)
    assert keys(resumed(rig, answer)) == [b"n"]
    answer = pending(rig, "AMEM.SEM.RECALL", "a", 1, "TEXT", "north")
    rig("AMEM.SEM.DROP", "a")
    assert resumed(rig, answer) == []


def test_the_gates_are_passed_again(rig):
    answer = pending(rig, "AMEM.SEM.STORE", "a", "n", "north", "EMBED")
    rig.log.frame_bytes_max = 0
    assert "MISCONF" in str(resumed(rig, answer))
    rig.log.frame_bytes_max = 1 << 40
    answer = pending(rig, "AMEM.SEM.STORE", "a", "n", "north", "EMBED")
    rig.session.authenticated = False
    assert "NOAUTH" in str(resumed(rig, answer))
    rig.session.authenticated = True
    assert rig("AMEM.SEM.LIST", "a") == []


def test_room_is_asked_for_the_vector_that_was_not_sent(rig, fake):
    rig("AMEM.SEM.CREATE", "wide", 4096)
    wide = np.arange(1, 4097, dtype="<f4").tobytes()
    fake.begin = lambda text, tell: tell(wide)  # type: ignore[method-assign]
    assert rig("AMEM.SEM.STORE", "wide", "k", "x", "EMBED") == b"OK"
    rig.log.frame_bytes_max = 8192
    assert "MISCONF" in refused(rig, "AMEM.SEM.STORE", "wide", "k", "x", "EMBED")


def test_a_life_span_counts_from_when_the_command_came(rig):
    answer = pending(rig, "AMEM.SEM.STORE", "a", "n", "north", "EMBED", "TTL", 10)
    rig.advance_ms(4000)
    assert resumed(rig, answer) == b"OK"
    rig.advance_ms(6000)
    assert rig("AMEM.SEM.GET", "a", "n") is None


# -- INFO --------------------------------------------------------------------------------------------


def test_info_tells_of_the_embedder_and_resetstat_counts_from_zero(rig, fake):
    lines = rig("INFO", "embedder").decode().splitlines()
    assert lines == ["# Embedder", "embedder_model:compass", "embedder_last_error:two lines"]
    rig("CONFIG", "RESETSTAT")
    assert fake.resets == 1
    rig.state.embedder = None
    assert rig("INFO", "embedder").decode().splitlines() == ["# Embedder", "embedder_model:"]
