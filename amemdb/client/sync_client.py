"""`amemdb.Client`: redis-py's client with a method for every AMEM command.

Pools, retries, TLS, Sentinel, hiredis and all commands of Redis are redis-py's. Ours are the methods, how their replies
are shaped, the classes of errors, and the schemes of URLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import redis
import redis.client
from redis.exceptions import ResponseError

from amemdb.client._pipeline_commands import PipelineCommands, PipelineTyped
from amemdb.client._replies import CALLBACKS
from amemdb.client._sync_commands import SyncCommands, SyncTyped
from amemdb.client.errors import EXPLAINED, explain, specific
from amemdb.client.shapes import Text
from amemdb.client.urls import redis_url

if TYPE_CHECKING:
    from typing import Self

    from redis.connection import ConnectionPool

    from amemdb.client.options import SyncOptions

EXEC_REPLY = "_"
"""The name under which redis-py's pipelines read the reply of EXEC."""


class Client(SyncCommands[Text], redis.Redis):
    """A client of an amemdb server, on a pool of connections that threads may share.

    Text comes back as `bytes`, with `decode_responses=True` as `str`. For other options see `redis.Redis`.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Client[Any], *, connection_pool: ConnectionPool, **options: Unpack[SyncOptions]) -> None: ...
        @overload
        def __init__(
            self: Client[bytes],
            host: str = ...,
            port: int = ...,
            db: int = ...,
            *,
            decode_responses: Literal[False] = False,
            **options: Unpack[SyncOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Client[str],
            host: str = ...,
            port: int = ...,
            db: int = ...,
            *,
            decode_responses: Literal[True],
            **options: Unpack[SyncOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Client[Any],
            host: str = ...,
            port: int = ...,
            db: int = ...,
            *,
            decode_responses: bool,
            **options: Unpack[SyncOptions],
        ) -> None: ...

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for command, shaped in CALLBACKS.items():
            self.set_response_callback(command, shaped)

    if TYPE_CHECKING:

        @overload
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

        def __enter__(self) -> Self: ...

    @property
    def typed(self) -> SyncTyped:
        """The methods that read memory, with frozen dataclasses as results (`amemdb.client.results`)."""
        return SyncTyped(self)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Commands that are sent together, by default as a transaction."""
        return Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and return its reply; a refusal notes what can be done about it."""
        try:
            return super().execute_command(*args, **options)
        except EXPLAINED as error:
            explain(error, args)
            raise

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """A reply as redis-py reads it; an error as the class that we have for it."""
        try:
            return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            ours = specific(error)
            if ours is error:
                raise
            raise ours from None


class Pipeline(PipelineCommands, redis.client.Pipeline):
    """Commands that are queued until `execute`; replies and errors are those of `Client`."""

    if TYPE_CHECKING:

        def __enter__(self) -> Self: ...

    @property
    def typed(self) -> PipelineTyped:
        """Queues the methods that read memory, with frozen dataclasses as results."""
        return PipelineTyped(self)

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """As `Client`; the reply of EXEC holds the errors of its commands."""
        try:
            response = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
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
