"""What AMEM.SEM.CREATE can set: kept, told, compared; half-size vectors, bounded memories, models that must agree."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import numpy as np
import pytest
from memory_walk import check
from rig import digest_by_parts

from amemdb.stores import last_use, records
from amemdb.stores.last_use import TOUCHES_MAX
from amemdb.stores.semantic import TOUCHES_AFTER_MS
from amemdb.stores.stores import Stores
from tests.commands.test_semantic import NOW, Node, keys, labelled

ALL = "M 32 EF_CONSTRUCTION 100 EF_SEARCH 50 QUANT f16 MAXFACTS 7 MODEL mini-lm LANG zh-Hant"


@pytest.fixture
def node() -> Node:
    return Node()


def info(node: Node, agent: str = "a") -> dict[bytes, Any]:
    return labelled([node.line(f"AMEM.SEM.INFO {agent}")])[0]


# -- settings ----------------------------------------------------------------------------------------


def test_settings_are_kept_and_told(node: Node) -> None:
    assert node.line(f"AMEM.SEM.CREATE a 4 METRIC l2 {ALL}") == b"OK"
    given = [32, 100, 50, b"f16", 7, b"mini-lm", b"zh-hant"]
    assert node.last_record() == [20, b"a", 4, b"l2", NOW, 1, *given]
    for restart in (False, True):
        if restart:
            node.restart()
        told = info(node)
        labels = (b"m", b"ef_construction", b"ef_search", b"quant", b"maxfacts", b"model", b"lang")
        assert [told[label] for label in labels] == given
    node.line("AMEM.SEM.CREATE plain 4")
    assert node.last_record() == [20, b"plain", 4, b"cosine", NOW, 1, 0, 0, 0, b"f32", 0, None, None]


def test_a_record_without_settings_is_one_with_the_defaults() -> None:
    old, new = Stores(), Stores()
    old.apply((records.NAMESPACE_CREATED, b"a", 2, b"ip", NOW, 1))
    new.apply((records.NAMESPACE_CREATED, b"a", 2, b"ip", NOW, 1, 0, 0, 0, b"f32", 0, None, None))
    assert old.digest(0) == new.digest(0)
    assert [list(dump) for dump in old.dumps(0)] == [list(dump) for dump in new.dumps(0)]


def test_again_with_what_fits_is_ok_and_with_anything_else_refused(node: Node) -> None:
    node.line(f"AMEM.SEM.CREATE a 4 {ALL}")
    frames = len(node.log.frames)
    for fitting in ("", "LANG ZH-hant", "MODEL mini-lm QUANT F16", ALL, "METRIC cosine M 32"):
        assert node.line(f"AMEM.SEM.CREATE a 4 {fitting}") == b"OK"
    assert len(node.log.frames) == frames
    exists = "semantic memory already exists with dim 4, metric cosine"
    assert node.refused("AMEM.SEM.CREATE a 4 MODEL other") == (
        f"{exists}, model mini-lm; asked for dim 4, metric cosine, model other"
    )
    assert node.refused("AMEM.SEM.CREATE a 5 QUANT f32 MAXFACTS 8 M 32") == (
        f"{exists}, quant f16, maxfacts 7; asked for dim 5, metric cosine, quant f32, maxfacts 8"
    )
    node.line("AMEM.SEM.CREATE b 4")
    for given in ("M 4", "EF_CONSTRUCTION 9", "EF_SEARCH 9", "MAXFACTS 5", "MODEL m", "LANG en"):
        word, _, value = given.lower().partition(" ")
        assert f"{word} none; asked for dim 4, metric cosine, {word} {value}" in node.refused(
            f"AMEM.SEM.CREATE b 4 {given}"
        )
    assert node.line("AMEM.SEM.CREATE b 4 QUANT f32") == b"OK", "what is there by default was asked for"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("M 3", "m must be from 4 to 128"),
        ("M 129", "m must be from 4 to 128"),
        ("EF_CONSTRUCTION 0", "ef_construction must be from 1"),
        ("EF_SEARCH 10001", "ef_search must be from 1 to 10000"),
        ("QUANT i8", "quant must be f32 or f16"),
        ("MAXFACTS 0", "maxfacts must be from 1"),
        ("MAXFACTS x", "maxfacts is 'x'"),
        ("LANG e_n", "lang must be a code such as en or zh-hant, got 'e_n'"),
        ("LANG --", "lang must be a code"),
        ("LANG " + "e" * 33, "lang must be 1 to 32 bytes"),
        ("MODEL " + "m" * 1025, "model must be 1 to 1024 bytes"),
        ("MODEL", "'MODEL' needs a value"),
        ("M 8 M 8", "repeated"),
    ],
)
def test_settings_have_bounds(node: Node, given: str, told: str) -> None:
    assert told in node.refused(f"AMEM.SEM.CREATE a 4 {given}")


def test_a_model_must_be_that_of_the_memory(node: Node) -> None:
    node.line("AMEM.SEM.CREATE a 2 MODEL mini-lm")
    assert node.line("AMEM.SEM.STORE a k text 1 0 MODEL mini-lm") == b"OK"
    assert keys(node.line("AMEM.SEM.RECALL a 1 1 0 MODEL mini-lm")) == [b"k"]
    told = "semantic memory has vectors of model 'mini-lm', not of 'other'"
    assert node.refused("AMEM.SEM.STORE a k text 1 0 MODEL other") == told
    assert node.refused("AMEM.SEM.RECALL a 1 1 0 MODEL other") == told
    assert node.line("AMEM.SEM.STORE a k text 1 0") == b"OK"
    node.line("AMEM.SEM.CREATE b 2")
    assert node.line("AMEM.SEM.STORE b k text 1 0 MODEL any") == b"OK", "there is nothing to compare with"


# -- 16-bit vectors ----------------------------------------------------------------------------------


def test_half_size_vectors_are_the_truth_everywhere(node: Node) -> None:
    node.line("AMEM.SEM.CREATE a 4 METRIC ip QUANT f16")
    sent = [0.1, -3.14159, 65504, 6e-8]
    held = np.array(sent, np.float16).astype("<f4")
    node.run("AMEM.SEM.STORE", "a", "k", "text", *sent)
    assert node.last_record()[5] == held.tobytes()
    node.run("AMEM.SEM.STORE", "a", "l", "text", "FP32", struct.pack("<4f", *sent))
    assert node.last_record()[5] == held.tobytes()
    for restart in (False, True):
        if restart:
            node.restart()
        fact = node.line("AMEM.SEM.GET a k WITHVECTOR", resp3=True)
        assert fact[b"vector"] == held.astype(np.float64).tolist() or np.allclose(fact[b"vector"], held, 1e-7)
        assert info(node)[b"bytes"] == 2 * (1 + 4 + 4 * 2)
        found = labelled(node.run("AMEM.SEM.RECALL", "a", 2, 1, 0, 0, 0))
        assert float(found[0][b"similarity"]) == float(held[0])
    check(node.stores)


def test_what_16_bits_cannot_hold_is_refused(node: Node) -> None:
    node.line("AMEM.SEM.CREATE a 2 QUANT f16")
    assert "component 2 of the vector must be from -65504 to 65504" in node.refused("AMEM.SEM.STORE a k t 1 65520")
    assert node.line("AMEM.SEM.STORE a k t 1 65519") == b"OK", "it is rounded to the largest"
    assert "all zeros (as float16)" in node.refused("AMEM.SEM.STORE a k t 2e-8 0")
    assert keys(node.line("AMEM.SEM.RECALL a 1 1e9 1e9")) == [b"k"], "a query is not rounded"


def test_an_exact_match_passes_the_threshold_of_one(node: Node) -> None:
    rng = np.random.default_rng(5)
    node.line("AMEM.SEM.CREATE a 64 QUANT f16")
    for number, vector in enumerate(rng.standard_normal((50, 64)).astype("<f4")):
        node.run("AMEM.SEM.STORE", "a", f"k{number}", "t", "FP32", vector.tobytes())
        found = node.run("AMEM.SEM.RECALL", "a", 1, "FP32", vector.tobytes(), "THRESHOLD", "1.0")
        assert keys(found) == [f"k{number}".encode()]


# -- bounded memories --------------------------------------------------------------------------------


def bounded(node: Node, maxfacts: int = 3) -> Node:
    node.line(f"AMEM.SEM.CREATE a 2 METRIC ip MAXFACTS {maxfacts}")
    for number in range(maxfacts):
        node.line(f"AMEM.SEM.STORE a k{number} text {number + 1} 0")
    return node


def test_beyond_the_bound_the_longest_unused_goes(node: Node) -> None:
    bounded(node)
    frames = node.frames_of("AMEM.SEM.STORE", "a", "k3", "text", 4, 0)
    assert [[record[:3] for record in frame] for frame in frames] == [[[22, b"a", b"k0"], [21, b"a", b"k3"]]]
    assert node.line("AMEM.SEM.LIST a") == [b"k1", b"k2", b"k3"]
    node.line("AMEM.SEM.STORE a k1 again 9 0")
    node.line("AMEM.SEM.STORE a k4 text 5 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k3", b"k1", b"k4"]
    assert info(node)[b"facts"] == 3
    node.restart()


def test_what_was_returned_stays_longer(node: Node) -> None:
    bounded(node)
    node.line("AMEM.SEM.RECALL a 1 -1 0")
    frames = node.frames_of("AMEM.SEM.STORE", "a", "k3", "text", 4, 0)
    assert [[record[:3] for record in frame] for frame in frames] == [
        [[24, b"a", [1]], [22, b"a", b"k1"], [21, b"a", b"k3"]]
    ]
    node.line("AMEM.SEM.GET a k2")
    node.line("AMEM.SEARCH a 1 -1 0")
    node.line("AMEM.SEM.STORE a k4 text 4 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k0", b"k2", b"k4"]
    node.line("AMEM.SEM.STORE a k5 text 4 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k0", b"k4", b"k5"]
    node.restart()
    check(node.stores)


def test_what_was_only_looked_at_for_an_answer_was_not_used(node: Node) -> None:
    bounded(node)
    node.run("AMEM.SEM.RECALL", "a", 2, 1, 0, "FILTER", 'key == "k1"', "EXPLAIN")
    node.line("AMEM.SEM.STORE a k3 text 4 0")
    node.line("AMEM.SEM.STORE a k4 text 4 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k1", b"k3", b"k4"]


def test_the_expired_go_first(node: Node) -> None:
    node.line("AMEM.SEM.CREATE a 2 METRIC ip MAXFACTS 4")
    for line in ("k0 t 1 0", "k1 t 1 0 TTL 5", "k2 t 1 0 TTL 2", "k3 t 1 0 TTL 900"):
        node.line(f"AMEM.SEM.STORE a {line}")
    node.now_ms += 10_000
    node.line("AMEM.SEM.RECALL a 9 1 0")
    frames = node.frames_of("AMEM.SEM.STORE", "a", "k4", "text", 4, 0)
    assert [record[:3] for record in frames[0]] == [[22, b"a", b"k2"], [21, b"a", b"k4"]]
    node.line("AMEM.SEM.STORE a k5 t 1 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k0", b"k3", b"k4", b"k5"]
    node.line("AMEM.SEM.STORE a k6 t 1 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k0", b"k4", b"k5", b"k6"], "no dead one is left"


def test_reads_emit_nothing_and_what_they_used_is_logged_once_a_minute(node: Node) -> None:
    bounded(node)
    frames, digest = len(node.log.frames), node.digest()
    node.line("AMEM.SEM.RECALL a 1 1 0")
    node.advance_ms(TOUCHES_AFTER_MS // 2)
    node.line("AMEM.SEM.RECALL a 1 -1 0")
    node.tick()
    assert (len(node.log.frames), node.digest()) == (frames, digest)
    check(node.stores)
    node.advance_ms(TOUCHES_AFTER_MS // 2 + 2000)
    expired = node.state.expired
    assert node.tick() == 1
    assert node.last_record() == [24, b"a", [3, 1]]
    assert node.state.expired == expired
    assert node.tick() == 0
    node.line("AMEM.SEM.RECALL a 1 1 0")
    node.tick()
    assert len(node.log.frames) == frames + 1
    node.advance_ms(TOUCHES_AFTER_MS + 2000)
    node.tick()
    assert node.last_record() == [24, b"a", [3]]
    node.restart()
    node.line("AMEM.SEM.STORE a k3 text 4 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k0", b"k2", b"k3"], "the order of use came back from the log"
    check(node.stores)


def test_a_use_that_was_not_logged_is_lost_with_a_crash_and_nothing_else(node: Node) -> None:
    bounded(node)
    node.line("AMEM.SEM.RECALL a 1 -1 0")
    node.restart()
    node.line("AMEM.SEM.STORE a k3 text 4 0")
    assert node.line("AMEM.SEM.LIST a") == [b"k1", b"k2", b"k3"]


def test_while_the_log_refuses_uses_wait(node: Node) -> None:
    bounded(node)
    node.line("AMEM.SEM.RECALL a 1 1 0")
    node.advance_ms(TOUCHES_AFTER_MS + 2000)
    room, node.log.frame_bytes_max = node.log.frame_bytes_max, 0
    assert node.tick() == 0
    assert str(node.line("AMEM.SEM.STORE a k9 text 4 0")).startswith("MISCONF")
    node.log.frame_bytes_max = room
    assert node.tick() == 1
    assert node.last_record() == [24, b"a", [3]]


def test_a_store_that_evicts_asks_for_the_room_before_it_changes_anything(node: Node) -> None:
    bounded(node)
    node.line("AMEM.SEM.RECALL a 3 1 0")
    node.log.frame_bytes_max = 2000
    before = node.digest()
    assert str(node.line("AMEM.SEM.STORE a k3 text 4 0")).startswith("MISCONF")
    assert node.digest() == before
    assert node.line("AMEM.SEM.STORE a k2 again 4 0") == b"OK"


def test_very_many_uses_are_logged_by_parts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2 * TOUCHES_MAX + 10
    bounded(node, count)
    node.run("AMEM.SEM.RECALL", "a", count, 1, 0)
    node.advance_ms(TOUCHES_AFTER_MS + 2000)
    sizes = []
    while node.tick():
        sizes.append(len(node.last_record()[2]))
    assert sizes == [TOUCHES_MAX, TOUCHES_MAX, 10]
    assert len(node.stores.wheel) == 0
    node.restart()
    node.run("AMEM.SEM.RECALL", "a", count, 1, 0)
    node.line("AMEM.SEM.STORE a new text 1 0")
    assert node.line("AMEM.SEM.GET a k0") is None, "the least similar came last, so it was used first of all"


def test_an_order_of_use_survives_dumps_flushes_and_drops(node: Node) -> None:
    bounded(node)
    node.line("AMEM.SEM.RECALL a 1 -1 0")
    node.line("AMEM.SEM.STORE a k3 text 4 0")
    copy = Stores()
    for dump in node.stores.dumps(0):
        for record in dump:
            copy.apply(record)
    assert copy.digest(0) == node.digest()
    assert list(copy.sem.namespaces[b"a"].last_use or ()) == list(node.stores.sem.namespaces[b"a"].last_use or ())
    for gone in ("AMEM.SEM.DROP a", "FLUSHALL"):
        node.line("AMEM.SEM.RECALL a 1 -1 0")
        assert len(node.stores.wheel) == 1
        node.line(gone)
        assert len(node.stores.wheel) == 0
        check(node.stores)
        bounded(node)


def test_a_large_bounded_memory_is_freed_bit_by_bit(node: Node) -> None:
    bounded(node, 2500)
    node.run("AMEM.SEM.RECALL", "a", 2500, 1, 0)
    node.line("AMEM.SEM.DROP a")
    assert node.stores.ledger.graveyard > 0
    while node.stores.graveyard.free(100):
        check(node.stores)
    assert (len(node.stores.graveyard), node.stores.ledger.graveyard, node.stores.ledger.semantic) == (0, 0, 0)


def test_a_fact_that_was_used_and_is_forgotten_leaves_nothing_to_log(node: Node) -> None:
    bounded(node)
    node.line("AMEM.SEM.GET a k1")
    node.line("AMEM.SEM.FORGET a k1")
    assert len(node.stores.wheel) == 0
    node.line("AMEM.SEM.GET a k2")
    node.line("AMEM.SEM.STORE a k2 again 1 0")
    assert len(node.stores.wheel) == 0
    check(node.stores)


@pytest.mark.parametrize("seed", range(4))
def test_replay_agrees_about_who_went(node: Node, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_use, "TOUCHES_MAX", 3)  # uses are left to be logged when a fact has to go
    chance = Random(seed)
    node.line("AMEM.SEM.CREATE a 2 METRIC ip MAXFACTS 8")
    used: dict[bytes, None] = {}
    for step in range(400):
        key = b"k%d" % chance.randrange(14)
        act = chance.random()
        if act < 0.5:
            full = key not in used and len(used) == 8
            node.run("AMEM.SEM.STORE", "a", key, "text", chance.random(), 0)
            if full:
                del used[next(iter(used))]
            used.pop(key, None)
            used[key] = None
        elif act < 0.6:
            node.run("AMEM.SEM.FORGET", "a", key)
            used.pop(key, None)
        elif act < 0.7:
            node.advance_ms(30_000)
            node.tick()
        else:
            for found in reversed(keys(node.run("AMEM.SEM.RECALL", "a", chance.randrange(4), 1, 0))):
                del used[found]
                used[found] = None
        assert sorted(node.line("AMEM.SEM.LIST a")) == sorted(used), step
        assert node.replayed().digest(0) == node.digest()
    check(node.stores)
    assert int(digest_by_parts(node.log.frames, 3, 0), 16) == int(node.digest(), 16)
