"""What the stores hold, counted anew by walking over all of it: what the ledger has to agree with, to the byte."""

from __future__ import annotations

from amemdb.stores import conversation, episodic, memory, summary
from amemdb.stores.keyspace import Database, value_bytes
from amemdb.stores.stores import Stores


def walked(stores: Stores) -> dict[str, int]:
    """Bytes by family, as they are in `Stores.ledger`, without the graveyard."""
    return {
        "conversation": sum(
            conversation.held_bytes(session) - session.memory_bytes() + session.walked_bytes()
            for session in stores.conv.sessions.values()
        ),
        "working": sum(notes.walked_bytes() for notes in stores.work.sessions.values()),
        "semantic": sum(namespace.walked_bytes() for namespace in stores.sem.namespaces.values()),
        "episodic": sum(
            episodic.held_bytes(agent, log) - log.memory_bytes() + log.walked_bytes()
            for agent, log in stores.epis.logs.items()
        ),
        "summary": sum(
            summary.held_bytes(agent, found) - found.memory_bytes() + found.walked_bytes()
            for agent, found in stores.summary.summaries.items()
        ),
        "keyspace": sum(map(keys_bytes, stores.keys.databases)),
    }


def keys_bytes(database: Database) -> int:
    """What the keys of a database take."""
    return sum(memory.text(len(key)) + value_bytes(value) for key, value in database.values.items())


def check(stores: Stores) -> None:
    """Fail unless every counter is what a walk finds."""
    assert walked(stores) == {family: getattr(stores.ledger, family) for family in walked(stores)}
    for database in stores.keys.databases:
        assert database.held_bytes == keys_bytes(database)
    for wheel in (stores.wheel, *(database.wheel for database in stores.keys.databases)):
        assert wheel.memory_bytes() == wheel.walked_bytes()
    families = (stores.conv, stores.sem, stores.epis, stores.summary, *stores.keys.databases)
    for names in [family.names for family in families]:
        assert names.memory_bytes() == names.walked_bytes()
    assert sum(things := [count_bytes for _, count_bytes in stores.graveyard._buried]) == stores.ledger.graveyard
    assert all(count_bytes >= 0 for count_bytes in things)
