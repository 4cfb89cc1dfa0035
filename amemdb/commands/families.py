"""The list of command modules; importing it declares every command."""

from amemdb.commands import (
    client,
    connection,
    conversation,
    counters,
    episodic,
    expiry,
    introspection,
    keys,
    memory,
    search,
    semantic,
    server,
    strings,
    summary,
    transactions,
    working,
)

FAMILIES = (
    connection,
    client,
    server,
    memory,
    introspection,
    transactions,
    keys,
    expiry,
    strings,
    counters,
    conversation,
    semantic,
    working,
    episodic,
    summary,
    search,
)
