"""`amemdb.asyncio.Client`: redis-py's asyncio client with a method for every AMEM command, as in `sync_client`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import redis.asyncio
import redis.asyncio.client
from redis.exceptions import ResponseError

from amemdb.client._async_commands import AsyncCommands, AsyncTyped
from amemdb.client._pipeline_commands import PipelineCommands, PipelineTyped
from amemdb.client._replies import CALLBACKS
from amemdb.client.errors import EXPLAINED, explain, specific
from amemdb.client.shapes import Text
from amemdb.client.sync_client import EXEC_REPLY
from amemdb.client.urls import redis_url

if TYPE_CHECKING:
    from typing import Self

    from redis.asyncio.connection import ConnectionPool

    from amemdb.client.options import AsyncOptions


class Client(AsyncCommands[Text], redis.asyncio.Redis):  # type: ignore[misc]  # redis-py's own bases disagree
    """A client of an amemdb server, on a pool of connections that tasks may share.

    Text comes back as `bytes`, with `decode_responses=True` as `str`. For other options see `redis.asyncio.Redis`.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Client[Any], *, connection_pool: ConnectionPool, **options: Unpack[AsyncOptions]
        ) -> None: ...
        @overload
        def __init__(
            self: Client[bytes],
            *,
            host: str = ...,
            port: int = ...,
            db: int = ...,
            decode_responses: Literal[False] = False,
            **options: Unpack[AsyncOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Client[str],
            *,
            host: str = ...,
            port: int = ...,
            db: int = ...,
            decode_responses: Literal[True],
            **options: Unpack[AsyncOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Client[Any],
            *,
            host: str = ...,
            port: int = ...,
            db: int = ...,
            decode_responses: bool,
            **options: Unpack[AsyncOptions],
        ) -> None: ...

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for command, shaped in CALLBACKS.items():
            self.set_response_callback(command, shaped)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # two options of redis-py's may stand without their names
        @classmethod
        def from_url(cls, url: str, *, decode_responses: Literal[False] = False, **options: Any) -> Client[bytes]: ...
        @overload
        @classmethod
        def from_url(cls, url: str, *, decode_responses: Literal[True], **options: Any) -> Client[str]: ...
        @overload
        @classmethod
        def from_url(cls, url: str, *, decode_responses: bool, **options: Any) -> Client[Any]: ...

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Any:
        """A client for `url`: `amemdb`, `redis` or `hotkv`, with an `s` behind for TLS, or `unix`."""
        return super().from_url(redis_url(url), **options)

    if TYPE_CHECKING:

        @classmethod
        def from_pool(cls, connection_pool: ConnectionPool) -> Client[Any]: ...

        def client(self) -> Client[Text]: ...

        async def __aenter__(self) -> Self: ...

    @property
    def typed(self) -> AsyncTyped:
        """The methods that read memory, with frozen dataclasses as results (`amemdb.client.results`)."""
        return AsyncTyped(self)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Commands that are sent together, by default as a transaction."""
        return Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and return its reply; a refusal notes what can be done about it."""
        try:
            return await super().execute_command(*args, **options)
        except EXPLAINED as error:
            explain(error, args)
            raise

    async def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """A reply as redis-py reads it; an error as the class that we have for it."""
        try:
            return await super().parse_response(connection, command_name, **options)
        except ResponseError as error:
            ours = specific(error)
            if ours is error:
                raise
            raise ours from None


class Pipeline(PipelineCommands, redis.asyncio.client.Pipeline):  # type: ignore[misc]  # as above
    """Commands that are queued until `execute`; replies and errors are those of `Client`."""

    if TYPE_CHECKING:

        async def __aenter__(self) -> Self: ...

    @property
    def typed(self) -> PipelineTyped:
        """Queues the methods that read memory, with frozen dataclasses as results."""
        return PipelineTyped(self)

    async def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """As `Client`; the reply of EXEC holds the errors of its commands."""
        try:
            response = await super().parse_response(connection, command_name, **options)
        except ResponseError as error:
            ours = specific(error)
            if ours is error:
                raise
            raise ours from None
        if command_name == EXEC_REPLY and isinstance(response, list):
            return [specific(reply) if isinstance(reply, ResponseError) else reply for reply in response]
        return response


@overload
def from_url(url: str, *, decode_responses: Literal[False] = False, **options: Any) -> Client[bytes]: ...
@overload
def from_url(url: str, *, decode_responses: Literal[True], **options: Any) -> Client[str]: ...
@overload
def from_url(url: str, *, decode_responses: bool, **options: Any) -> Client[Any]: ...
def from_url(url: str, **options: Any) -> Client[Any]:
    """A client for `url`: `amemdb`, `redis` or `hotkv`, with an `s` behind for TLS, or `unix`."""
    client: Client[Any] = Client.from_url(url, **options)
    return client
