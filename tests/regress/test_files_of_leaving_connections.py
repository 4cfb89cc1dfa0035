"""Connections on their way out took the files that the log needs.

`maxclients` was lowered to what the system's limit of open files allows, but peers that were turned away and did not
close were not counted: several hundred of them could hold every file there was, and no new segment could be made.
And when several had to be hurried at once, the same one was closed again and again.
"""

from __future__ import annotations

import resource

import pytest
from server.fakes import Rig

from amemdb.server.listener import FAREWELLS_MAX, FAREWELLS_MIN, Listener
from amemdb.server.run import FILES_RESERVED, _sockets_allowed


def crowded(rig: Rig, peers: int) -> tuple[int, int]:
    """`peers` connect and stay; how many are served and how many have not been closed."""
    transports = [rig.connect()[1] for _ in range(peers)]
    open_ = sum(not transport.aborted for transport in transports)
    return rig.state.connections_received, open_


@pytest.mark.parametrize("sockets_max", [2 + FAREWELLS_MIN, 60])
def test_served_and_leaving_connections_stay_within_the_files_there_are(sockets_max: int) -> None:
    rig = Rig(clients_max=2)
    rig.listener = Listener(rig.host, 2, 0, sockets_max)
    assert crowded(rig, 200) == (2, sockets_max)


def test_with_files_enough_a_fixed_number_may_be_leaving() -> None:
    assert crowded(Rig(clients_max=2), FAREWELLS_MAX + 100) == (2, 2 + FAREWELLS_MAX)


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1 << 20, 1 << 20, 1000 + FAREWELLS_MAX),
        (256, 1 << 20, 1000 + FAREWELLS_MAX),
        (256, 1200, 1200 - FILES_RESERVED),
        (256, 256, 256 - FILES_RESERVED),
        (20, 20, 1 + FAREWELLS_MIN),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 1000 + FAREWELLS_MAX),
    ],
)
def test_the_limit_of_open_files_counts_them_in(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: None)
    assert _sockets_allowed(1000) == expected
