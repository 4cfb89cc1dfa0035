"""Native code took the empty reply of a silenced client for an error, as the buffer for it did not exist yet."""

from __future__ import annotations

from tests.server.live import Client, Live, line, live


def test_a_first_request_may_ask_for_silence():
    async def test(server: Live) -> None:
        client: Client = await server.client()
        client.send(line("CLIENT", "REPLY", "OFF") + line("PING"))
        await client.ask(line("CLIENT", "REPLY", "ON"), b"+OK\r\n")
        await client.ask(line("PING"), b"+PONG\r\n")

    assert live(test).bugs == []
