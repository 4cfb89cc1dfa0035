"""`amemdb doctor`: looks at everything that a server needs and says, line by line, what to do.

Exit codes: 0 when a server can work (there may be warnings), 1 when something is broken, 2 when called wrongly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import redis
from rich.table import Table
from rich.text import Text

from amemdb import __version__
from amemdb.cli.connection import DEFAULT_URL, address_of, client_of, reason_of, url_option
from amemdb.cli.environment import crashed_s_ago, folder_of, of_folder, of_machine
from amemdb.cli.findings import Finding, of_server
from amemdb.cli.info import asked
from amemdb.cli.showing import console as new_console
from amemdb.cli.showing import duration, readable
from amemdb.config import BY_NAME

SKEW_MS_WARN, SKEW_MS_FAIL = 1_000, 60_000
ROUND_TRIPS = 5
MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


@click.command("doctor", short_help="Check environment, data folder, connection and settings.")
@url_option
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    envvar="AMEMDB_DIR",
    help="Data folder to look at; that of a server on this machine, or ./amemdb-data, if not given.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON instead of a list.")
@click.pass_context
def doctor(ctx: click.Context, url: str, folder: Path | None, as_json: bool) -> int:
    """Check what a server needs on this machine and whether a running one is well."""
    server = _Server(url)
    sections: dict[str, list[Finding]] = {"this machine": list(of_machine())}
    # Nobody asked for a server, and none runs at the usual place: that is no fault.
    asked_for = ctx.get_parameter_source("url") is not click.core.ParameterSource.DEFAULT or url != DEFAULT_URL
    connection = list(server.of_connection(asked_for))
    data = folder or server.folder()
    if data is not None:
        sections["data folder"] = list(of_folder(data))
    sections[f"server at {address_of(url)}"] = connection
    everything = [finding for findings in sections.values() for finding in findings]
    if as_json:
        told = [{"section": name, **vars(finding)} for name, findings in sections.items() for finding in findings]
        click.echo(json.dumps(told))
    else:
        _show(sections, everything)
    return 1 if any(finding.level == "fail" for finding in everything) else 0


class _Server:
    """The running server, as far as there is one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._state: dict[str, Any] = {}
        self._settings: dict[str, str] = {}

    def of_connection(self, asked_for: bool) -> Iterator[Finding]:
        """Reachable, logged in, in step with our clock, set well."""
        client = client_of(self._url, timeout_s=10)
        try:
            client.ping()
        except redis.RedisError as error:
            level = "fail" if asked_for or not _refused(error) else "warn"
            yield Finding("fail" if level == "fail" else "warn", "connection", reason_of(error, self._url))
            return
        try:
            yield from self._of_server(client)
        except redis.RedisError as error:
            yield Finding("fail", "connection", reason_of(error, self._url), "look at the server's own log")
        finally:
            client.close()

    def _of_server(self, client: redis.Redis) -> Iterator[Finding]:
        self._state, self._settings = asked(client)
        version = self._state.get("amemdb_version")
        if not version:
            yield Finding(
                "fail",
                "connection",
                f"that is Redis {self._state.get('redis_version', '?')}",
                "--url names another server",
            )
            return
        trips_ms, skew_ms = _clock(client)
        login = "with a password" if self._settings.get("requirepass") else "no password is set"
        yield Finding("ok", "connection", f"answers in {min(trips_ms):.2f} ms, {login}")
        yield _of_version(str(version))
        yield _of_clock(skew_ms)
        if not self._settings:
            yield Finding("ok", "settings", "not to be read by this user")
        yield from of_server(self._state, self._settings, crashed_s_ago(self.folder()))

    def folder(self) -> Path | None:
        """Its data folder, where it runs on this machine; the default one where no server was found."""
        if not self._state:
            return Path(BY_NAME["dir"].default)
        return folder_of(self._url, self._state, self._settings)


def _refused(error: Exception) -> bool:
    return "refused" in str(error)


def _clock(client: Any) -> tuple[list[float], float]:
    """Round trips in milliseconds, and how far the server's clock is ahead by the quickest of them."""
    trips = []
    for _ in range(ROUND_TRIPS):
        before_ns, began = time.time_ns(), time.perf_counter()
        seconds, microseconds = client.execute_command("TIME")
        trip_ms = (time.perf_counter() - began) * 1000
        there_ms = int(seconds) * 1000 + int(microseconds) / 1000
        trips.append((trip_ms, there_ms - (before_ns / 1e6 + trip_ms / 2)))
    return [trip for trip, _ in trips], min(trips)[1]


def _of_clock(skew_ms: float) -> Finding:
    if abs(skew_ms) < SKEW_MS_WARN:
        return Finding("ok", "clock", f"the server's and this machine's agree within {max(1, round(abs(skew_ms)))} ms")
    way = "ahead of" if skew_ms > 0 else "behind"
    text = (
        f"the server's is {duration(abs(skew_ms) / 1000)} {way} this machine's: what expires at a time is off by that"
    )
    return Finding(
        "fail" if abs(skew_ms) >= SKEW_MS_FAIL else "warn", "clock", text, "let both keep time by NTP (timedatectl)"
    )


def _of_version(version: str) -> Finding:
    if version == __version__:
        return Finding("ok", "version", f"{version} there and here")
    return Finding(
        "warn", "version", f"{readable(version)} there, {__version__} here", "bring both to the same version"
    )


def _show(sections: dict[str, list[Finding]], everything: list[Finding]) -> None:
    console = new_console()
    for name, findings in sections.items():
        console.print(Text(readable(name), style="bold"))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, min_width=12)
        grid.add_column(overflow="fold")
        for finding in findings:
            mark, style = MARKS[finding.level]
            said = Text(readable(finding.said))
            if finding.do:
                said.append(f"\n→ {finding.do}", style="cyan")
            grid.add_row(Text(f"  {mark}", style=style), finding.subject, said)
        console.print(grid)
    failed = sum(finding.level == "fail" for finding in everything)
    warned = sum(finding.level == "warn" for finding in everything)
    if failed:
        console.print(Text(f"{failed} to mend, {warned} to look at", style="bold red"))
    elif warned:
        console.print(Text(f"works; {warned} to look at", style="yellow"))
    else:
        console.print(Text("all is well", style="green"))
