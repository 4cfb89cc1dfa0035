"""What is judged of a server's memory, from its INFO."""

from __future__ import annotations

from typing import Any

import pytest

from amemdb.cli.connection import whole_url
from amemdb.cli.findings import Finding, of_server, writes_refused

MIB = 1 << 20


def memory(used: int, limit: int, own: int = 48, **more: Any) -> dict[str, Any]:
    """INFO of a server, in MiB."""
    return {"used_memory": used * MIB, "maxmemory": limit * MIB, "used_memory_startup": own * MIB, **more}


def found(info: dict[str, Any]) -> list[Finding]:
    return [finding for finding in of_server(info, {}) if finding.subject in ("memory", "refusals")]


@pytest.mark.parametrize(
    ("info", "levels"),
    [
        (memory(50, 0), []),
        (memory(500, 1000), ["ok"]),
        (memory(900, 1000), ["ok"]),
        (memory(901, 1000), ["warn"]),
        (memory(1000, 1000), ["warn"]),
        (memory(1001, 1000), ["fail"]),
        (memory(1100, 1000, lazyfree_pending_bytes=200 * MIB), ["warn"]),
        (memory(1001, 1000, errorstat_OOM={"count": 3}), ["fail"]),
        (memory(500, 1000, errorstat_OOM={"count": 3}), ["ok", "ok"]),
        (memory(1001, 1000, maxmemory_policy="allkeys-lru"), []),
    ],
)
def test_memory_is_judged(info, levels):
    assert [finding.level for finding in found(info)] == levels
    assert all(bool(finding.do) == (finding.level != "ok") for finding in found(info))
    assert bool(writes_refused(info)) == ("fail" in levels)


def test_a_limit_below_an_empty_server_is_not_mended_by_deleting():
    (full,) = found(memory(1001, 1000))
    assert full.do.startswith("delete, or raise it")
    (hopeless,) = found(memory(49, 10))
    assert hopeless.do.startswith("raise it, as the server itself takes 48.0 MiB")


def test_a_log_that_cannot_be_written_goes_first():
    info = memory(1001, 1000, log_error="no room")
    assert writes_refused(info) == "no room"
    assert [finding.subject for finding in of_server(info, {}) if finding.level == "fail"] == ["log", "memory"]


def test_a_compaction_that_failed_is_told():
    assert not list(of_server({"compaction_error": ""}, {}))
    (finding,) = of_server({"compaction_error": "No space left on device"}, {})
    assert (finding.level, finding.subject) == ("warn", "compaction")
    assert "No space left on device" in finding.said
    assert "BGREWRITEAOF" in finding.do


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("localhost:7411", "redis://localhost:7411"),
        ("[::1]:7411/2", "redis://[::1]:7411/2"),
        ("redis://h:1", "redis://h:1"),
        ("unix:///run/x", "unix:///run/x"),
        ("7411", "7411"),
        (":secret@h:1", ":secret@h:1"),
        ("h:1\n", "h:1\n"),
    ],
)
def test_a_host_and_a_port_are_a_url(given, meant):
    assert whole_url(given) == meant
