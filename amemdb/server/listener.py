"""All connections: the sockets that accept them, how many there may be, who has to go.

Sockets are bound before the data is loaded, so that an address in use is found out at once, and listen only when
everything is ready to be served.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

from amemdb.commands.session import Session
from amemdb.server.connection import Connection, Host
from amemdb.server.farewell import Farewell

FAREWELLS_MAX = 512
"""Connections on their way out at a time; beyond it they are closed without a wait for the peer."""
FAREWELLS_MIN = 16
"""As many of them there is always room for, however few files the system lets us open."""
TOO_MANY = b"-ERR max number of clients reached\r\n"

_log = logging.getLogger("amemdb")


class ListenError(Exception):
    """The address cannot be listened on; the text says why and what to do."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address that `host` stands for; port 0 picks a free one, the same for all.

    Raises `ListenError`.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise ListenError(f"cannot listen on host '{host}': {reason}. Set --host to an address here.") from None
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            bound.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(bound) > 1:
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            sock.bind(address)
            sock.setblocking(False)
    except OSError as error:
        for sock in bound:
            sock.close()
        raise _cannot_listen(host, port, error) from None
    return bound


def _cannot_listen(host: str, port: int, error: OSError) -> ListenError:
    where = f"cannot listen on {address_text((host, port))}"
    if error.errno == errno.EADDRINUSE:
        return ListenError(f"{where}: another program uses this port. Stop it, or choose another with --port.")
    if error.errno == errno.EACCES:
        return ListenError(f"{where}: not permitted. Choose a port above 1023 with --port.")
    return ListenError(f"{where}: {error.strerror}. Set --host to an address of this machine.")


def address_text(address: tuple[str, int] | tuple[str, int, int, int] | str | None) -> str:
    """A peer's address as CLIENT LIST shows it."""
    if not address or isinstance(address, str):
        return address or "?:0"
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


class Listener:
    """Accepts connections and keeps them. Implements `amemdb.server.connection.Roster`."""

    def __init__(self, host: Host, clients_max: int, keepalive_s: int, sockets_max: int | None = None) -> None:
        """`sockets_max` bounds the connections that are served and those on their way out, taken together."""
        self._host = host
        self._clients_max = clients_max
        self._sockets_max = clients_max + FAREWELLS_MAX if sockets_max is None else sockets_max
        self._keepalive_s = keepalive_s
        self._connections: dict[int, Connection] = {}
        self._farewells: dict[Farewell, None] = {}
        self._servers: list[asyncio.Server] = []
        self._stopping = False
        self._refused = 0
        """Turned away since the last round of the sweep."""
        self._unswept: list[Connection | Farewell] = []
        self._share = 0

    async def listen(self, sockets: list[socket.socket], backlog: int) -> None:
        """Accept on `sockets` from now on. Raises `ListenError`."""
        for sock in sockets:
            try:
                sock.listen(backlog)
            except OSError as error:
                address, port, *_ = sock.getsockname()
                raise _cannot_listen(address, port, error) from None
            server = await self._host.loop.create_server(self._connection, sock=sock, backlog=backlog)
            self._servers.append(server)

    def close(self) -> None:
        """Accept no more."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _connection(self) -> Connection:
        return Connection(self._host, self)

    # -- roster ----------------------------------------------------------------------------------

    def admit(self, connection: Connection, transport: asyncio.Transport) -> Session | None:
        """A session for `connection`, or None after it was told that there are too many."""
        if self._stopping:
            transport.abort()
            return None
        set_socket_options(transport, self._keepalive_s)
        if len(self._connections) >= self._clients_max:
            self._host.state.connections_rejected += 1
            self._refused += 1
            transport.write(TOO_MANY)
            self.see_off(connection, transport, False)
            return None
        peer = address_text(transport.get_extra_info("peername"))
        session = self._host.state.open_session(peer, address_text(transport.get_extra_info("sockname")))
        self._connections[session.id] = connection
        self._hurry_farewells()
        return session

    def leave(self, connection: Connection) -> None:
        """`connection` is over."""
        del self._connections[connection.session.id]
        self._host.state.close_session(connection.session)

    def see_off(self, connection: Connection, transport: asyncio.Transport, peer_has_ended: bool) -> None:
        """Let the peer of `transport` read its last words, then close."""
        farewell = Farewell(transport, self._host.clock.monotonic_ns(), self._host.stall_ns, self._gone)
        self._farewells[farewell] = None
        farewell.begin(peer_has_ended)
        self._hurry_farewells()

    def _hurry_farewells(self) -> None:
        """Close the longest on their way out while they are too many: their files are needed for other things."""
        room = max(FAREWELLS_MIN, min(FAREWELLS_MAX, self._sockets_max - len(self._connections)))
        while len(self._farewells) > room:
            farewell = next(iter(self._farewells))
            del self._farewells[farewell]  # it is told of the end in a later turn only
            farewell.abort()

    def _gone(self, farewell: Farewell) -> None:
        self._farewells.pop(farewell, None)

    # -- called now and then -----------------------------------------------------------------------

    def sweep(self, now_ns: int, calls_per_round: int = 1) -> None:
        """Have every connection look at its limits, a share of them at each call, as one takes about a microsecond."""
        if not self._unswept:
            self._unswept = [*self._connections.values(), *self._farewells]
            self._share = -(-len(self._unswept) // calls_per_round)
            self._tell_refused()
        for _ in range(min(self._share, len(self._unswept))):
            self._unswept.pop().check(now_ns)

    def _tell_refused(self) -> None:
        if self._refused:
            _log.warning("turned away %d connections: maxclients (%d) reached", self._refused, self._clients_max)
            self._refused = 0

    def kill(self, session: Session) -> None:
        """CLIENT KILL."""
        connection = self._connections.get(session.id)
        if connection is not None:
            connection.kill()

    def stop(self) -> None:
        """The server stops: no connection executes anything more."""
        self._stopping = True
        for connection in list(self._connections.values()):
            connection.stop()

    @property
    def owes_replies(self) -> bool:
        """Whether anything is still to be sent to any peer."""
        if any(farewell.unsent_bytes for farewell in self._farewells):
            return True
        return any(connection.owes_replies for connection in self._connections.values())

    @property
    def peers_remain(self) -> bool:
        """Whether any connection is open, if only on its way out."""
        return bool(self._connections or self._farewells)

    def abort(self) -> None:
        """Close whatever is still open."""
        for connection in list(self._connections.values()):
            connection.session.kill = True
            connection.kill()
        for farewell in list(self._farewells):
            farewell.abort()


def set_socket_options(transport: asyncio.Transport, keepalive_s: int) -> None:
    """No delay for small replies, and probes that find peers which have vanished."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if keepalive_s:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, keepalive_s // 3))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
