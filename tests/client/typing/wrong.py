"""Wrong uses of the typed client: a type checker must refuse each line marked as refused, and no other.

Read by `test_types`, never run.
"""

from __future__ import annotations

import amemdb
import amemdb.asyncio

client = amemdb.from_url("amemdb://localhost", decode_responses=True)

client.amem_conv_create("s", 50)  # refused: options go by name
client.amem_conv_create("s", window="50")  # refused
client.amem_conv_create("s", ttl=1.5)  # refused
client.amem_conv_create("s", expires=1)  # refused
client.amem_conv_create(None)  # refused
client.amem_conv_append("s", "user")  # refused
client.amem_conv_append("s", "user", ["hello"])  # refused
client.amem_conv_append("s", "user", "hello", meta=[1])  # refused
client.amem_conv_append("s", "user", "hello", at="2026-01-01")  # refused
client.amem_conv_window("s")  # refused
client.amem_conv_get("s")[0]["seq"]  # refused: only with_meta has it
client.amem_conv_get("s")[0]["text"]  # refused
client.amem_sem_create("a", 3, metric="euclid")  # refused
client.amem_sem_store("a", "k", "content", "0.1 0.2")  # refused
client.amem_sem_store("a", "k", "content", [[0.1], [0.2]])  # refused
client.amem_sem_store("a", "k", "content", [0.1], trust="maybe")  # refused
client.amem_sem_recall("a", [0.1], 3)  # refused
client.amem_sem_recall("a", 3, [0.1], threshold="0.8")  # refused
client.amem_sem_get("a", "k")["content"]  # refused: it may be None
client.amem_summary_get("a")[0]  # refused: it may be None
client.amem_epis_retain("a", maxage="30d")  # refused
client.amem_unknown("a")  # refused
repr(client.typed.amem_conv_get("s")[0].text)  # refused
client.typed.amem_conv_append("s", "user", "hello")  # refused: it reads nothing
amemdb.Client(port="6379")  # refused
amemdb.Client(pasword="p")  # refused
amemdb.asyncio.Client("localhost")  # refused: its options go by name

binary: bytes | None = client.amem_work_get("s", "k")  # refused: decoded


async def on_a_loop() -> None:
    loop_client = amemdb.asyncio.from_url("amemdb://localhost")
    loop_client.amem_conv_get("s")[0]  # refused: not awaited
    repr((await loop_client.amem_conv_get("s"))[0]["content"] + "!")  # refused: not decoded
