"""One script through HotKV's published client and through ours: equal results for every `amem_*` method that it has.

Each writes its own copy of the memory, from an empty server; whatever is read is at once read by the other client as
well, and has to be equal to the type. Between the two runs only times may differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import hotkv
import hotkv.asyncio
import pytest
import redis

import amemdb
import amemdb.asyncio
from tests.process import ServerProcess

MODES = [(protocol, decode) for protocol in (2, 3) for decode in (False, True)]
METHODS = {name for name, _ in inspect.getmembers(hotkv.HotKV, inspect.isfunction) if name.startswith("amem_")}
READS = {
    *("amem_conv_get", "amem_conv_window", "amem_sem_recall", "amem_sem_list", "amem_work_get", "amem_work_list"),
    *("amem_epis_query", "amem_epis_stats", "amem_search", "amem_summary_get", "amem_summary_list"),
}
TIMES = {"timestamp", "oldest_ts", "newest_ts"}
LONG_AGO_MS = 1
LATER_MS = 4_000_000_000_000

Step = tuple[str, tuple[Any, ...], dict[str, Any]]


def step(name: str, *args: Any, **options: Any) -> Step:
    return f"amem_{name}", args, options


STEPS = [
    step("conv_create", "s"),
    step("conv_create", b"s", window=3, ttl=86400),
    step("conv_create", session_id="gone", pxat=LONG_AGO_MS),
    *(step("conv_append", "s", role, f"türn {n}") for n, role in enumerate(("system", "USER", "assistant", "tool"))),
    step("conv_append", "s", role="user", content=b"\xc3\xa9"),
    step("conv_append", 42, "user", "unknown session"),
    step("conv_append", "gone", "user", "expired session"),
    step("conv_append", "s", "person", "unknown role"),
    step("conv_get", "s"),
    step("conv_get", "nobody"),
    step("conv_window", "s", 2),
    step("conv_window", "s", n=0),
    step("conv_window", "s", -1),
    step("work_set", "s", "key", "value", ttl=60),
    step("work_set", "s", "number", 1e-5, pxat=LATER_MS),
    step("work_set", "s", "whole", 3.0),
    step("work_set", "s", "integer", -7),
    step("work_set", "s", "empty", ""),
    step("work_set", "s", "past", "v", pxat=LONG_AGO_MS),
    step("work_set", "s", "both", "v", ttl=1, pxat=LATER_MS),
    step("work_set", "s", "zero", "v", ttl=0),
    step("work_set", "nobody", "key", "value"),
    *(step("work_get", "s", key) for key in ("key", "number", "whole", "integer", "empty", "past", "missing")),
    step("work_list", "s"),
    step("work_list", "nobody"),
    step("work_del", "s", "key"),
    step("work_del", "s", "key"),
    step("work_clear", "s"),
    step("work_clear", "s"),
    step("conv_clear", "s"),
    step("conv_clear", "nobody"),
    step("conv_get", "s"),
    step("conv_drop", "s"),
    step("conv_drop", "s"),
    step("sem_create", "a", 3),
    step("sem_create", agent_id="a", dimensions=3),
    step("sem_create", "a", 4),
    step("sem_create", "b", 0),
    step("sem_store", "a", "near", "close by", [0.1, 0.2, 0.3]),
    step("sem_store", "a", "tiny", "small numbers", [1e-8, 1.0, -1e-30], ttl=60),
    step("sem_store", "a", key="far", content="elsewhere", vector=(-1, -2, -3.5), pxat=LATER_MS),
    step("sem_store", "a", "past", "expired", [1, 1, 1], pxat=LONG_AGO_MS),
    step("sem_store", "a", "short", "c", [1.0]),
    step("sem_store", "a", "nan", "c", [1.0, float("nan"), 1.0]),
    step("sem_store", "a", "huge", "c", [1e39, 0.0, 0.0]),
    step("sem_store", "a", "zero", "c", [0.0, 0.0, 0.0]),
    step("sem_store", "nobody", "key", "c", [1.0]),
    step("sem_recall", "a", 10, [0.1, 0.2, 0.3]),
    step("sem_recall", "a", 1, vector=[0.3, 1e-7, -12345.678]),
    step("sem_recall", "a", 0, [0.1, 0.2, 0.3]),
    step("sem_recall", "nobody", 3, [0.1, 0.2, 0.3]),
    step("sem_recall", "a", 3, [0.1, 0.2]),
    step("search", "a", 2, [0.1, 0.2, 0.3]),
    step("search", "nobody", 2, [0.1, 0.2, 0.3]),
    step("sem_list", "a"),
    step("sem_list", "nobody"),
    step("sem_forget", "a", "near"),
    step("sem_forget", "a", "near"),
    step("epis_log", "a", "action", "looked up", metadata='{"id": 1}'),
    step("epis_log", "a", event_type="decision", content="refund"),
    step("epis_log", "a", "", "no type"),
    step("epis_query", "a"),
    step("epis_query", "a", type="action"),
    step("epis_query", "a", from_ts=0, to_ts=LATER_MS, limit=1),
    step("epis_query", "a", to_ts=0),
    step("epis_query", "nobody"),
    step("epis_stats", "a"),
    step("epis_stats", "nobody"),
    step("epis_clear", "a"),
    step("epis_clear", "nobody"),
    step("summary_get", "a"),
    step("summary_set", "a", "Prefers short answers."),
    step("summary_set", "a", summary="Prefers letters."),
    step("summary_append", "a", extra="Works in finance."),
    step("summary_get", "a"),
    step("summary_list"),
    step("summary_drop", "a"),
    step("summary_drop", "a"),
    step("summary_list"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


def exact(value: Any) -> Any:
    """A value with the types of its parts: True is not 1, and a tuple is no list."""
    if isinstance(value, dict):
        return dict, [(key, exact(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [exact(item) for item in value]
    return type(value), value


def timeless(name: str, value: Any) -> Any:
    """A value without what depends on when the script ran."""
    if name == "amem_summary_get" and value is not None:
        return (*value[:2], "seconds")
    if isinstance(value, dict):
        return {key: "time" if key in TIMES and item else item for key, item in value.items()}
    return [timeless("", item) for item in value] if isinstance(value, list) else value


Do = Callable[[Any, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


async def attempt(do: Do, client: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a step gave: its value, or that it was refused, by whom, and the sentence of the server."""
    try:
        return await do(client, name, args, options)
    except (redis.DataError, hotkv.DataError):
        return "refused before it was sent"
    except (redis.ResponseError, hotkv.ResponseError) as error:
        return "refused by the server: " + str(error).removeprefix("ERR ")


async def told(do: Do, writer: Any, reader: Any) -> list[Any]:
    answers = []
    for name, args, options in STEPS:
        value = await attempt(do, writer, name, args, options)
        if name in READS:
            again = await attempt(do, reader, name, args, options)
            assert exact(again) == exact(value) or _only_the_form_of_a_vector_differs(again, value), (name, args)
        answers.append((name, args, exact(timeless(name, value)) if not isinstance(value, str) else _told(value)))
    return answers


def _told(text: str) -> str:
    """HotKV's client sends numbers and ours bytes: a wrong dimension is counted in the one or the other."""
    return text.partition(", ")[0] if "components" in text else text


def _only_the_form_of_a_vector_differs(one: Any, other: Any) -> bool:
    return isinstance(one, str) and isinstance(other, str) and "components" in one and _told(one) == _told(other)


def test_the_script_calls_every_method() -> None:
    assert {name for name, _, _ in STEPS} == METHODS
    assert METHODS >= READS


@pytest.mark.parametrize(("protocol", "decode"), MODES)
async def test_the_same_script_gives_the_same(server: ServerProcess, protocol: int, decode: bool) -> None:
    async def do(client: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return getattr(client, name)(*args, **options)

    with (
        hotkv.HotKV(port=server.port, resp3=protocol == 3, decode_responses=decode) as theirs,
        amemdb.Client(port=server.port, protocol=protocol, decode_responses=decode) as ours,
    ):
        ours.flushall()
        first = await told(do, theirs, ours)
        ours.flushall()
        assert await told(do, ours, theirs) == first
    refused = [answer for _, _, answer in first if isinstance(answer, str) and answer.startswith("refused")]
    assert len(refused) >= 13


@pytest.mark.parametrize(("protocol", "decode"), MODES)
async def test_the_same_script_gives_the_same_on_a_loop(server: ServerProcess, protocol: int, decode: bool) -> None:
    async def do(client: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return await getattr(client, name)(*args, **options)

    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(
            hotkv.asyncio.HotKV(port=server.port, resp3=protocol == 3, decode_responses=decode)
        )
        ours = await stack.enter_async_context(
            amemdb.asyncio.Client(port=server.port, protocol=protocol, decode_responses=decode)
        )
        await ours.flushall()
        first = await told(do, theirs, ours)
        await ours.flushall()
        assert await told(do, ours, theirs) == first


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize(("protocol", "decode"), MODES)
def test_a_pipeline_gives_the_same(server: ServerProcess, protocol: int, decode: bool, transaction: bool) -> None:
    steps = [given for given in STEPS if given[2].get("ttl") != 0 and ("ttl" in given[2]) + ("pxat" in given[2]) < 2]
    answers = []
    with (
        hotkv.HotKV(port=server.port, resp3=protocol == 3, decode_responses=decode) as theirs,
        amemdb.Client(port=server.port, protocol=protocol, decode_responses=decode) as ours,
    ):
        for client in (theirs, ours):
            ours.flushall()
            pipe: Any = client.pipeline(transaction=transaction)
            queued = []
            for name, args, options in steps:
                try:
                    getattr(pipe, name)(*args, **options)
                except (redis.DataError, hotkv.DataError):
                    continue
                queued.append(name)
            replies = pipe.execute(raise_on_error=False)
            assert len(replies) == len(queued)
            answers.append(
                [
                    (name, "refused" if isinstance(reply, Exception) else exact(timeless(name, reply)))
                    for name, reply in zip(queued, replies, strict=True)
                ]
            )
    assert answers[0] == answers[1]
