"""`amemdb.asyncio`: the client for programs that run on an event loop. The blocking one is `amemdb.Client`."""

from __future__ import annotations

from amemdb.client.async_client import Client, Pipeline, from_url

__all__ = ["Client", "Pipeline", "from_url"]
