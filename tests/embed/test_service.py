"""The service: batches, cache, bounds, failures, and that nobody waits for nothing."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from amemdb.embed import service as service_module
from amemdb.embed.cache import ENTRY_BYTES, Cache, key_of
from amemdb.embed.embedder import Embedder, EmbedError
from amemdb.embed.service import Service

SECONDS_MAX = 20


class Held(Embedder):
    """An embedder that answers when the test lets it, and remembers what it was asked."""

    def __init__(self, held: bool = False, parallel: int = 1, collect_s: float = 0.0) -> None:
        super().__init__("held")
        self.parallel, self.collect_s = parallel, collect_s
        self.calls: list[list[str]] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Semaphore(0 if held else 1_000_000)
        self.closed = False

    def _answer(self, texts: list[str]) -> Any:
        self.calls.append(texts)
        self.entered.release()
        assert self.go.acquire(timeout=SECONDS_MAX)
        if "bug" in texts:
            raise ZeroDivisionError
        if "fatal" in texts:
            raise self._failed("down")
        if any(text.startswith("bad") for text in texts):
            raise self._failed("cannot take it", texts_at_fault=True)
        return [vector(text) for text in texts]

    def close(self) -> None:
        self.closed = True


def vector(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)))]


@pytest.fixture
def made():
    """Makes services, and closes them."""
    services: list[Service] = []

    def make(embedder: Embedder, **options: Any) -> Service:
        services.append(Service(embedder, **options))
        return services[-1]

    yield make
    for service in services:
        if isinstance(service.embedder, Held):
            service.embedder.go.release(1000)
        service.close()


def begun(model: Held) -> None:
    assert model.entered.acquire(timeout=SECONDS_MAX)


def test_vectors_come_in_the_order_of_the_texts(made):
    service = made(Held(), batch_max=2)
    assert service.embed(["a", "bb", "a", "ccc", "d"]).tolist() == [
        vector(text) for text in ["a", "bb", "a", "ccc", "d"]
    ]
    assert service.embed([]).shape == (0, 2)
    assert service.counts.failures == 0


def test_what_comes_while_a_call_is_under_way_goes_together(made):
    model = Held(held=True)
    service = made(model, batch_max=4)
    futures = [service.submit(["first"])]
    begun(model)
    futures += [service.submit([f"t{number}"]) for number in range(6)]
    assert service.waiting == 6
    model.go.release(10)
    for number, future in enumerate(futures[1:]):
        assert future.result(SECONDS_MAX).tolist() == [vector(f"t{number}")]
    assert [len(texts) for texts in model.calls] == [1, 4, 2]
    assert (service.counts.requests, service.counts.texts) == (3, 7)


def test_a_first_text_waits_a_moment_for_others_if_it_is_worth_it(made):
    model = Held(collect_s=SECONDS_MAX)
    service = made(model, batch_max=3)
    futures = [service.submit([text]) for text in "abc"]
    assert [future.result(SECONDS_MAX / 2).tolist() for future in futures] == [[vector(text)] for text in "abc"]
    assert model.calls == [["a", "b", "c"]]


def test_equal_texts_of_a_batch_are_embedded_once(made):
    model = Held(held=True)
    service = made(model)
    first = service.submit(["x"])
    begun(model)
    futures = [service.submit(["same"]) for _ in range(5)]
    model.go.release(10)
    assert {tuple(future.result(SECONDS_MAX)[0]) for future in futures} == {tuple(vector("same"))}
    assert first.result(SECONDS_MAX) is not None
    assert model.calls[1:] == [["same"]]


def test_as_many_calls_are_under_way_as_the_embedder_allows(made):
    model = Held(held=True, parallel=3)
    service = made(model, batch_max=1)
    futures = [service.submit([text]) for text in "abcd"]
    for _ in range(3):
        begun(model)
    assert service.waiting == 1
    model.go.release(10)
    assert [future.result(SECONDS_MAX).tolist() for future in futures] == [[vector(text)] for text in "abcd"]


def test_a_long_text_goes_alone(made, monkeypatch):
    monkeypatch.setattr(service_module, "BATCH_CHARACTERS_MAX", 10)
    model = Held(held=True)
    service = made(model)
    futures = [service.submit(["x"])]
    begun(model)
    futures += [service.submit([text]) for text in ("a" * 6, "b" * 4, "c" * 50, "d")]
    model.go.release(10)
    for future in futures:
        future.result(SECONDS_MAX)
    assert [len(texts) for texts in model.calls] == [1, 2, 1, 1]


async def test_a_future_can_be_awaited(made):
    service = made(Held())
    vectors = await asyncio.wrap_future(service.submit(["a"]))
    assert vectors.tolist() == [vector("a")]
    with pytest.raises(EmbedError, match="down"):
        await asyncio.wrap_future(service.submit(["fatal"]))


# -- cache -------------------------------------------------------------------------------------------


def test_what_was_embedded_is_not_embedded_again(made):
    model = Held()
    service = made(model, cache_bytes=1 << 20)
    service.embed(["a", "b"])
    future = service.submit(["b", "a"])
    assert future.done()
    assert future.result().tolist() == [vector("b"), vector("a")]
    assert service.embed(["a", "c"]).tolist() == [vector("a"), vector("c")]
    assert model.calls == [["a", "b"], ["c"]]
    assert service.counts.cache_hits == 3
    assert service.cache_bytes == 3 * (8 + ENTRY_BYTES)


def test_failures_are_not_kept(made):
    model = Held()
    service = made(model, cache_bytes=1 << 20)
    for _ in range(2):
        with pytest.raises(EmbedError, match="down"):
            service.embed(["fatal"])
    assert len(model.calls) == 2


def test_the_cache_stays_within_its_bytes_and_the_least_lately_used_go():
    size = 8 + ENTRY_BYTES
    cache = Cache(2 * size)
    one, two, three = (np.array([number, 0], np.float32) for number in (1, 2, 3))
    cache.put(b"1", one)
    cache.put(b"2", two)
    assert cache.get(b"1") is not None
    cache.put(b"3", three)
    assert cache.get(b"2") is None
    assert len(cache) == 2
    assert cache.used_bytes == 2 * size
    cache.put(b"3", one)
    assert cache.used_bytes == 2 * size
    assert cache.get(b"3").tolist() == [1, 0]
    cache.put(b"4", np.zeros(1000, np.float32))
    assert cache.get(b"4") is None
    assert len(cache) == 2
    nothing = Cache(0)
    nothing.put(b"1", one)
    assert len(nothing) == 0


def test_a_cached_vector_cannot_be_changed_by_who_got_it(made):
    service = made(Held(), cache_bytes=1 << 20)
    first = service.embed(["a"])
    first[0, 0] = 99
    again = service.embed(["a"])
    assert again.tolist() == [vector("a")]
    again[0, 0] = 99
    assert service.embed(["a"]).tolist() == [vector("a")]


def test_keys_differ_where_texts_do():
    texts = ["", "a", "A", "a ", "ä", "a\u0308", "\ud800", "\udfff"]
    assert len({key_of(text) for text in texts}) == len(texts)


# -- failures ----------------------------------------------------------------------------------------


def test_one_bad_text_is_the_failure_of_who_sent_it(made):
    model = Held(held=True)
    service = made(model, batch_max=64)
    first = service.submit(["x"])
    begun(model)
    good = [service.submit([f"good{number}"]) for number in range(20)]
    bad = service.submit(["bad"])
    mixed = service.submit(["good3", "bad2"])
    good += [service.submit([f"good{number}"]) for number in range(20, 40)]
    model.go.release(1000)
    for number, future in enumerate(good):
        assert future.result(SECONDS_MAX).tolist() == [vector(f"good{number}")]
    for future in (bad, mixed):
        with pytest.raises(EmbedError, match="cannot take it"):
            future.result(SECONDS_MAX)
    assert first.done()
    assert len(model.calls) < 24


def test_a_batch_is_not_split_for_ever(made):
    model = Held(held=True)
    times = iter(range(0, 10**15, 10**9))
    service = made(model, split_s_max=3, timer_ns=lambda: next(times))
    first = service.submit(["x"])
    begun(model)
    futures = [service.submit([f"bad{number}"]) for number in range(64)]
    model.go.release(1000)
    for future in futures:
        with pytest.raises(EmbedError):
            future.result(SECONDS_MAX)
    assert first.done()
    assert len(model.calls) < 8


def test_a_failure_that_is_nobodys_fault_is_told_to_all_and_not_split(made):
    model = Held(held=True)
    service = made(model)
    first = service.submit(["x"])
    begun(model)
    futures = [service.submit([text]) for text in ("a", "fatal", "b")]
    model.go.release(10)
    for future in futures:
        with pytest.raises(EmbedError, match="embedder 'held': down"):
            future.result(SECONDS_MAX)
    assert first.done()
    assert len(model.calls) == 2
    assert (service.counts.failures, service.counts.last_error) == (1, "embedder 'held': down")
    service.reset()
    assert (service.counts.failures, service.counts.requests) == (0, 0)
    assert service.embed(["fine"]).tolist() == [vector("fine")]


def test_a_bug_reaches_who_waits_and_the_thread_goes_on(made):
    service = made(Held())
    with pytest.raises(ZeroDivisionError):
        service.embed(["bug"], SECONDS_MAX)
    assert service.embed(["fine"], SECONDS_MAX).tolist() == [vector("fine")]


def test_a_model_that_cannot_be_loaded_is_told_and_tried_again(made):
    class Unready(Held):
        ready = False

        def prepare(self) -> None:
            self.entered.release()
            if not self.ready:
                raise self._failed("no such file")

        def _answer(self, texts: list[str]) -> Any:
            self.prepare()
            return super()._answer(texts)

    model = Unready()
    service = made(model)
    assert service.wait_prepared(SECONDS_MAX)
    assert service.counts.last_error == "embedder 'held': no such file"
    begun(model)
    with pytest.raises(EmbedError, match="no such file"):
        service.embed(["a"], SECONDS_MAX)
    model.ready = True
    assert service.embed(["a"], SECONDS_MAX).tolist() == [vector("a")]
    assert service.counts.failures == 2


def test_waiting_for_a_model_to_be_loaded_ends(made):
    class Slow(Held):
        def prepare(self) -> None:
            assert self.go.acquire(timeout=SECONDS_MAX)

    model = Slow(held=True)
    service = made(model)
    assert not service.wait_prepared(0.02)
    model.go.release()
    assert service.wait_prepared(SECONDS_MAX)


def test_what_nobody_waits_for_is_not_embedded(made):
    model = Held(held=True)
    service = made(model)
    first = service.submit(["x"])
    begun(model)
    gone, stays = service.submit(["gone"]), service.submit(["stays"])
    assert gone.cancel()
    assert first.cancel()  # under way: what it gives is dropped, but for the cache
    model.go.release(10)
    assert stays.result(SECONDS_MAX).tolist() == [vector("stays")]
    assert model.calls == [["x"], ["stays"]]
    with pytest.raises(CancelledError):
        first.result()


def test_waiting_ends(made):
    model = Held(held=True)
    service = made(model)
    with pytest.raises(EmbedError, match=r"embedder 'held': no answer within 0\.05 s"):
        service.embed(["a"], 0.05)


def test_the_queue_is_bounded(made, monkeypatch):
    monkeypatch.setattr(service_module, "WAITING_TEXTS_MAX", 3)
    monkeypatch.setattr(service_module, "WAITING_CHARACTERS_MAX", 100)
    model = Held(held=True)
    service = made(model)
    service.submit(["x"])
    begun(model)
    service.submit(["y" * 1000])  # a long text alone is taken
    with pytest.raises(EmbedError, match="too much waits for it already: 1 texts"):
        service.submit(["z"]).result(0)
    model.go.release()
    begun(model)
    for text in "abc":
        service.submit([text])
    with pytest.raises(EmbedError, match="too much waits for it already: 3 texts"):
        service.submit(["d"]).result(0)


def test_what_nobody_waits_for_makes_room_even_while_a_call_hangs(made, monkeypatch):
    monkeypatch.setattr(service_module, "WAITING_TEXTS_MAX", 3)
    model = Held(held=True)
    service = made(model)
    service.submit(["x"])
    begun(model)
    for future in [service.submit([text]) for text in "abc"]:
        future.cancel()
    stays = service.submit(["d"])
    model.go.release(10)
    assert stays.result(SECONDS_MAX).tolist() == [vector("d")]
    assert model.calls == [["x"], ["d"]]


def test_closing_fails_what_waits(made):
    model = Held(held=True)
    service = made(model)
    under_way = service.submit(["x"])
    begun(model)
    waiting = service.submit(["y"])
    model.go.release(10)
    service.close()
    assert under_way.result(SECONDS_MAX).tolist() == [vector("x")]
    with pytest.raises(EmbedError, match="is closed"):
        waiting.result(0)
    with pytest.raises(EmbedError, match="is closed"):
        service.submit(["z"]).result(0)
    assert model.closed


def test_many_threads_at_once(made):
    service = made(Held(parallel=4), batch_max=8, cache_bytes=20 * (8 + ENTRY_BYTES))
    wrong: list[str] = []

    def ask(seed: int) -> None:
        for number in range(50):
            texts = [f"{seed * number * place % 37}" for place in range(12)]
            if service.embed(texts, SECONDS_MAX).tolist() != [vector(text) for text in texts]:
                wrong.append(texts[0])

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert service.waiting == 0
