"""One connection to a server for `amemdb cli`: a request out, its reply in, errors as values.

State that belongs to a connection (database, login, a transaction) stays with it for as long as it lives. When it is
lost that is told, and the next request makes a new one, since only the user knows whether to send a command again.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.exceptions import AuthorizationError

from amemdb.cli.connection import Unreachable, address_of, client_of, reason_of

REFUSALS = (redis.ResponseError, redis.AuthenticationError, AuthorizationError, redis.BusyLoadingError)
"""What a server answers; redis-py counts some of it among the failures of a connection."""


class LoginNeeded(Unreachable):
    """The server asks for a password, or for another one."""


class Link:
    """A connection that is made when it is needed. `db` and `in_transaction` are for the prompt."""

    def __init__(self, url: str) -> None:
        self._client = client_of(url)
        self._url = url
        self._connection: Any = None
        self.address = address_of(url)
        self._db_at_first = int(self._client.connection_pool.connection_kwargs.get("db") or 0)
        self.db = self._db_at_first
        self.in_transaction = False
        self._db_queued = self.db

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    def ask(self, argv: list[bytes]) -> Any:
        """The reply, or the server's refusal as an exception that is returned. Raises `Unreachable`."""
        try:
            if self._connection is None:
                self._connect()
            self._connection.send_command(*argv)
            reply = self._connection.read_response(disable_decoding=True)
        except REFUSALS as error:
            reply = error
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.close()
            raise Unreachable(reason_of(error, self._url)) from None
        except KeyboardInterrupt:
            self.close()  # a reply is on its way that nobody waits for any more
            raise
        self._follow(argv, reply)
        return reply

    def log_in_with(self, password: str) -> None:
        """Use this password from the next connection on."""
        self._client.connection_pool.connection_kwargs["password"] = password

    def close(self) -> None:
        """Let go of the connection, and of what the server knew by it."""
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None
        self.db, self.in_transaction = self._db_at_first, False
        self._db_queued = self.db

    def _connect(self) -> None:
        connection: Any = self._client.connection_pool.make_connection()
        try:
            connection.connect()
        except redis.AuthenticationError as error:
            raise LoginNeeded(reason_of(error, self._url)) from None
        except (redis.RedisError, OSError) as error:
            raise Unreachable(reason_of(error, self._url)) from None
        self._connection = connection

    def _follow(self, argv: list[bytes], reply: Any) -> None:
        word = argv[0].upper()
        if isinstance(reply, Exception):
            self.in_transaction = self.in_transaction and word not in (b"EXEC", b"DISCARD")
        elif word == b"MULTI":
            self.in_transaction, self._db_queued = True, self.db
        elif word in (b"EXEC", b"DISCARD"):
            self.in_transaction = False
            if word == b"EXEC" and isinstance(reply, list):
                self.db = self._db_queued
        elif word == b"RESET":
            self.in_transaction, self.db = False, 0
        elif word == b"SELECT" and len(argv) == 2 and reply in (b"OK", b"QUEUED"):
            self._db_queued = int(argv[1])
            self.db = self.db if self.in_transaction else self._db_queued
        elif word == b"QUIT":
            self.close()
