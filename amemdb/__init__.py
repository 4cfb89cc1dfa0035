"""amemdb: an in-memory database for the memory of AI agents, speaking the Redis protocol.

What a program needs of the client is here, `Client`, `from_url` and `asyncio`, and is imported when it is first asked
for: the server, which needs only the version, runs without redis-py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amemdb import asyncio as asyncio
    from amemdb.client.sync_client import Client as Client
    from amemdb.client.sync_client import from_url as from_url

__version__ = "0.1.0"
__all__ = ["Client", "__version__", "asyncio", "from_url"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "asyncio":
        return import_module("amemdb.asyncio")
    value = getattr(import_module("amemdb.client.sync_client"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
