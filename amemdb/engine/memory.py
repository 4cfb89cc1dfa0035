"""What the process uses of memory, and `maxmemory`.

Used is what there was at the start, what the stores hold (`Stores.ledger` and `Stores.tables_bytes`), what connections
have in their buffers, and the frames that the log keeps until they are safe. All of it is counted as it changes, so
that to know it costs some microseconds. The resident size, which the system tells, is only there for comparison.

The gate for writes has to be cheaper still. What changes with every command is in the ledger, and the gate
compares that with `data_bytes_max`: the limit less all the rest, which is looked at again (`refresh`) with every tick,
after each `FRESH_BYTES` of frames, and before anything is refused. Native code compares the same two numbers.

Who logs that writes are refused, and that they are taken again, is told by `on_refusing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from amemdb.commands.session import Session
from amemdb.stores.stores import Stores

FRESH_BYTES = 64 * 1024
FAMILIES = ("conversation", "working", "semantic", "episodic", "summary", "keyspace")
NO_LIMIT = 1 << 62
CLIENT_BYTES = 2_400
"""What a connection takes beside what waits in its buffers, as measured: transport, session, parser, buffers."""
ROUND_TICKS = 10
"""Ticks in which every connection's buffers are looked at once."""
QUIET_TICKS = 10
"""Ticks without a refusal, below the limit, after which writes count as taken again."""
FREE_COUNT, FREE_ROUNDS = 500, 8
"""What was dropped is freed by so many parts, so many times, before a write is refused: half a millisecond or so."""


class Report(NamedTuple):
    """What is used, in bytes. `overhead` and `dataset` are all of `used`; `tables` are a part of `overhead`."""

    used: int
    peak: int
    resident: int
    startup: int
    overhead: int
    clients: int
    log: int
    dropped: int
    """Out of use and not freed yet."""
    dropped_things: int
    expiry: int
    text: int
    """Indexes for searching by words."""
    families: dict[str, int]
    """By family: its objects and its tables."""

    @property
    def dataset(self) -> int:
        """What is used by the objects alone."""
        return self.used - self.overhead

    @property
    def dataset_percentage(self) -> float:
        """The same, of all that is used beyond the start."""
        return 100 * self.dataset / max(1, self.used - self.startup)

    @property
    def fragmentation(self) -> float:
        """What the process has of the system for each byte that is used."""
        return self.resident / max(1, self.used)


class Memory:
    """One server's memory. `bind` gives it the stores and the native hot path."""

    def __init__(self) -> None:
        self.limit_bytes = 0
        """The setting `maxmemory`; 0 for none."""
        self.startup_bytes = 0
        """What the process had before it held any data; set by the server."""
        self.peak_bytes = 0
        self.clients_bytes = 0
        self.resident_bytes: Callable[[], int] = _nothing
        self.log_bytes: Callable[[], int] = _nothing
        """What the log keeps."""
        self.on_refusing: Callable[[bool], None] = _not_told
        self.data_bytes_max = NO_LIMIT
        """Beyond it, writes that make the data grow are refused."""
        self.fresh_until_offset = NO_LIMIT
        """Where the log is when it is time to refresh."""
        self._offset: Callable[[], int] = _nothing
        self._stores = Stores()
        self._hot: Any = None
        self._refusing = False
        self._quiet_ticks = 0
        self._unseen: Iterator[int] = iter(())
        """Connections of this round by id, so that none is held on to."""
        self._round_bytes = 0
        self._share = 1

    def bind(self, stores: Stores, offset: Callable[[], int], hot: Any) -> None:
        """Count what `stores` hold; `offset` is that of the log, `hot` the native hot path or None."""
        self._stores, self._offset, self._hot = stores, offset, hot
        self.refresh()

    # -- what is used ----------------------------------------------------------------------------

    @property
    def overhead_bytes(self) -> int:
        """What is used for other things than objects."""
        tables_bytes = sum(self._stores.tables_bytes().values())
        return self.startup_bytes + tables_bytes + self.clients_bytes + self.log_bytes()

    @property
    def used_bytes(self) -> int:
        """All that is used."""
        used = self.overhead_bytes + self._stores.ledger.held
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def report(self) -> Report:
        """Everything."""
        tables = self._stores.tables_bytes()
        ledger = self._stores.ledger
        families = {name: getattr(ledger, name) + tables[name] for name in FAMILIES}
        log_bytes = self.log_bytes()
        overhead = self.startup_bytes + sum(tables.values()) + self.clients_bytes + log_bytes
        used = overhead + ledger.held
        self.peak_bytes = max(self.peak_bytes, used)
        return Report(
            used=used,
            peak=self.peak_bytes,
            resident=self.resident_bytes(),
            startup=self.startup_bytes,
            overhead=overhead,
            clients=self.clients_bytes,
            log=log_bytes,
            dropped=ledger.graveyard,
            dropped_things=len(self._stores.graveyard),
            expiry=tables["expiry"],
            text=tables["text"],
            families=families,
        )

    def count_clients(self, sessions: Iterable[Session]) -> None:
        """Look at the buffers of all connections now."""
        self.clients_bytes = sum(map(client_bytes, sessions))

    def tick(self, sessions: dict[int, Session]) -> None:
        """Look at what changes without a command: a share of the connections, the log, what was freed."""
        if self._share_seen(sessions):
            self.clients_bytes = self._round_bytes
            self._round_bytes = 0
            self._share = -(-len(sessions) // ROUND_TICKS)
            self._unseen = iter(list(sessions))
        self.refresh()
        if self._refusing:
            self._quiet_ticks = 0 if self._is_full() else self._quiet_ticks + 1
            if self._quiet_ticks >= QUIET_TICKS:
                self._refusing = False
                self.on_refusing(False)

    def _share_seen(self, sessions: dict[int, Session]) -> bool:
        """Look at some connections; whether those were the last of a round."""
        for _ in range(self._share):
            session_id = next(self._unseen, None)
            if session_id is None:
                return True
            if session_id in sessions:
                self._round_bytes += client_bytes(sessions[session_id])
        return False

    # -- the limit -------------------------------------------------------------------------------

    def set_limit(self, limit_bytes: int) -> None:
        """`maxmemory` was set."""
        self.limit_bytes = limit_bytes
        self.refresh()

    def refresh(self) -> None:
        """Look at everything."""
        overhead_bytes = self.overhead_bytes
        self.peak_bytes = max(self.peak_bytes, overhead_bytes + self._stores.ledger.held)
        if self.limit_bytes:
            self.data_bytes_max = self.limit_bytes - overhead_bytes
            self.fresh_until_offset = self._offset() + FRESH_BYTES
        else:
            self.data_bytes_max = self.fresh_until_offset = NO_LIMIT
        if self._hot is not None:
            self._hot.limit_memory(self.data_bytes_max, self.fresh_until_offset)

    def refuses(self) -> bool:
        """Whether to refuse a write that makes the data grow. What was dropped is freed first, for a while."""
        if not self._is_full():
            return False
        self.refresh()
        graveyard = self._stores.graveyard
        for _ in range(FREE_ROUNDS):
            if not self._is_full() or not len(graveyard):
                break
            graveyard.free(FREE_COUNT)
        if not self._is_full():
            return False
        self._quiet_ticks = 0
        if not self._refusing:
            self._refusing = True
            self.on_refusing(True)
        return True

    def _is_full(self) -> bool:
        return self._stores.ledger.held > self.data_bytes_max


def client_bytes(session: Session) -> int:
    """What a connection takes."""
    return CLIENT_BYTES + session.query_bytes + session.output_bytes + session.queue_bytes


def _nothing() -> int:
    return 0


def _not_told(refusing: bool) -> None:
    return
