"""`amemdb info`: the state of a running server on one screen.

It asks for nothing that costs a walk over the data, unless there is little of it. Exit codes: 0, 1 when something is
found that needs doing at once, 2 when the server could not be reached.
"""

from __future__ import annotations

import json
from typing import Any

import click
import redis
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from amemdb.cli.connection import address_of, connected, reason_of, url_option
from amemdb.cli.environment import crashed_s_ago, folder_of
from amemdb.cli.findings import Finding, of_server, writes_refused
from amemdb.cli.showing import console, duration, readable, size

WALK_MAX = 20_000
"""Up to so many objects what is in them is counted as well: that takes a few milliseconds of the server."""
COMMANDS_SHOWN = 5
NATIVE = {"yes": "in use", "no": "not in use"}
MARKS = {"fail": ("✗", "bold red"), "warn": ("!", "yellow")}
"""The findings that are shown, the grave first."""
STORES = {
    "conversation_sessions": ("sessions", "conversation_turns", "turns"),
    "semantic_namespaces": ("fact namespaces", "semantic_facts", "facts"),
    "working_sessions": ("sessions with notes", "working_notes", "notes"),
    "episodic_agents": ("event logs", "episodic_events", "events"),
    "summary_agents": ("summaries", "summary_versions", "versions"),
}


@click.command("info", short_help="Show the state of a running server on one screen.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="All of it as one line of JSON.")
def info(url: str, as_json: bool) -> int:
    """Show the state of a running server: load, memory, log, what it holds, and what needs a look."""
    client = connected(url, timeout_s=10)
    try:
        state, settings = asked(client)
    except redis.RedisError as error:
        raise click.UsageError(reason_of(error, url)) from None
    finally:
        client.close()
    found = list(of_server(state, settings, crashed_s_ago(folder_of(url, state, settings))))
    if as_json:
        click.echo(json.dumps({**state, "findings": [vars(finding) for finding in found]}))
    else:
        console().print(screen(address_of(url), state, settings, found))
    return 1 if any(finding.level == "fail" for finding in found) else 0


def asked(client: redis.Redis) -> tuple[dict[str, Any], dict[str, str]]:
    """INFO and the settings; no settings where they may not be read."""
    try:
        state: dict[str, Any] = client.info("default", "commandstats")
        if sum(int(state.get(name, 0)) for name in STORES) <= WALK_MAX and _held(state) <= WALK_MAX:
            for section in ("conversation", "semantic", "working", "episodic", "summary"):
                state.update(client.info(section))
    except (AttributeError, TypeError, ValueError):
        raise redis.InvalidResponse("what answers there is neither amemdb nor Redis") from None
    try:
        told = client.config_get("*")
    except redis.ResponseError:
        return state, {}
    return state, {_word(name): _word(value) for name, value in told.items()}


def _held(state: dict[str, Any]) -> int:
    return sum(entry.get("keys", 0) for entry in _databases(state).values())


def _databases(state: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: entry for name, entry in state.items() if name.startswith("db") and isinstance(entry, dict)}


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# -- the screen --------------------------------------------------------------------------------------


def screen(address: str, state: dict[str, Any], settings: dict[str, str], found: list[Finding]) -> RenderableType:
    """Everything, for about 80 columns."""
    version = state.get("amemdb_version")
    name = f"amemdb {version}" if version else f"Redis {state.get('redis_version', '?')} (not amemdb)"
    up = duration(int(state.get("uptime_in_seconds", 0)))
    head = Text.assemble((readable(name), "bold"), f"  {readable(address)}  up {up}", style="")
    process = f"process {state.get('process_id', '?')}  Python {state.get('python_version', '?')}"
    head.append(f"  {readable(process)}", style="dim")
    blocks = [
        Panel(_load(state), title="load", title_align="left", width=47),
        Panel(_data(state), title="holds", title_align="left", width=47),
        Panel(_memory(state), title="memory and log", title_align="left", width=47),
        Panel(_busiest(state), title="most time spent in", title_align="left", width=47),
    ]
    return Group(head, Columns(blocks, padding=(0, 1)), _judgement(found))


def _grid(rows: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(label, readable(value))
    return grid


def _load(state: dict[str, Any]) -> Table:
    lag_us, worst_us = int(state.get("event_loop_lag_usec", 0)), int(state.get("event_loop_lag_max_usec", 0))
    rate = int(state.get("instantaneous_ops_per_sec", 0))
    kbps = [float(state.get(f"instantaneous_{way}_kbps", 0)) for way in ("input", "output")]
    return _grid(
        [
            ("commands", f"{rate:,}/s now, {state.get('total_commands_processed', 0):,} so far"),
            ("network", f"{size(kbps[0] * 1024)}/s in, {size(kbps[1] * 1024)}/s out"),
            ("clients", f"{state.get('connected_clients', 0):,} of {int(state.get('maxclients', 0)):,}"),
            ("loop lag", f"{lag_us / 1000:.1f} ms now, {worst_us / 1000:.1f} ms at worst"),
            ("errors", f"{state.get('total_error_replies', 0):,} refused commands"),
            ("slow", f"{state.get('slowlog_len', 0)} in SLOWLOG"),
            ("native code", NATIVE.get(str(state.get("amemdb_native")), "?")),
        ]
    )  # fmt: skip


def _memory(state: dict[str, Any]) -> Table:
    refused = writes_refused(state)
    waiting = int(state.get("log_undurable_bytes", 0))
    return _grid(
        [
            ("in use", f"{size(state.get('used_memory', 0))}, at most {size(state.get('used_memory_peak', 0))}"),
            ("resident", size(state.get("used_memory_rss", 0))),
            ("maxmemory", size(int(state.get("maxmemory", 0))) if state.get("maxmemory") else "no limit"),
            ("log", f"{size(state.get('log_offset', 0))} written, {_files(int(state.get('log_segments', 0)))}"),
            ("compaction", _compaction(state)),
            ("fsync", f"{state.get('log_policy', '?')}, {size(waiting)} not yet on disk"),
            ("writes", readable(f"REFUSED: {refused}") if refused else "taken"),
            ("role", str(state.get("role", "?"))),
        ]
    )


def _compaction(state: dict[str, Any]) -> str:
    if state.get("aof_rewrite_in_progress"):
        total = max(1, int(state.get("compaction_read_bytes_total", 0)))
        return f"under way, {100 * int(state.get('compaction_read_bytes', 0)) // total} % read"
    if state.get("compaction_error"):
        return "the last one FAILED"
    if not state.get("aof_rewrites"):
        return "none since the start"
    return f"last one took {state.get('aof_last_rewrite_time_sec', 0):,} s, base {size(state.get('aof_base_size', 0))}"


def _files(count: int) -> str:
    return f"{count:,} {'file' if count == 1 else 'files'}"


def _data(state: dict[str, Any]) -> Table:
    rows = []
    for name, (label, inner_name, inner) in STORES.items():
        count = int(state.get(name, 0))
        held = int(state.get(inner_name, 0))
        within = f", {held:,} {inner if held != 1 else inner[:-1]}" if inner_name in state and count else ""
        rows.append((label, f"{count:,}{within}"))
    rows.append(("plain keys", f"{_held(state):,}"))
    return _grid(rows)


def _busiest(state: dict[str, Any]) -> RenderableType:
    calls = [
        (name[8:], entry) for name, entry in state.items() if name.startswith("cmdstat_") and isinstance(entry, dict)
    ]
    calls.sort(key=lambda call: -call[1]["usec"])
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right")
    grid.add_column(justify="right", style="dim")
    for name, entry in calls[:COMMANDS_SHOWN]:
        grid.add_row(
            readable(name.upper().replace("|", " ")), f"{entry['calls']:,}", f"{entry['usec_per_call']:.0f} µs each"
        )
    return grid if calls else Text("nothing yet", style="dim")


def _judgement(found: list[Finding]) -> RenderableType:
    lines: list[RenderableType] = []
    for level, (mark, style) in MARKS.items():
        for finding in found:
            if finding.level == level:
                line = Text(readable(f"{mark} {finding.subject}: {finding.said}"), style=style)
                if finding.do:
                    line.append(f"\n  → {finding.do}", style="default")
                lines.append(line)
    return Group(*lines) if lines else Text("✓ nothing needs a look", style="green")
