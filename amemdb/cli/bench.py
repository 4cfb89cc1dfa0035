"""`amemdb bench`: how fast the usual commands are from here, in a few seconds.

One connection sends one command after the other, or `--pipeline` of them at once, through redis-py: what a Python
program sees, its own time included, and not what the server can do. It works on names of its own, which it removes
afterwards, also when it is interrupted. `benchmarks/` in the repository is for comparing servers.

Exit codes: 0, 1 when a command was refused, 2 when the server could not be reached.
"""

from __future__ import annotations

import json
import os
import platform
import random
import secrets
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click
import redis
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from amemdb.cli.connection import address_of, connected, reason_of, url_option
from amemdb.cli.showing import console as new_console
from amemdb.cli.showing import readable

DIMENSION = 384
FACTS = 1000
TURNS_READ = 10
LIFE_S = 3600
"""What a killed run leaves behind ends after this where it can."""
TEXT = b"The customer asks for an invoice with another VAT number; I have passed it on to accounting."
Request = tuple[Any, ...]


@dataclass
class Measured:
    """What one command did. `seconds` holds the time of each round trip."""

    name: str
    count: int = 0
    elapsed_s: float = 0.0
    seconds: list[float] = field(default_factory=list)
    refusal: str = ""

    @property
    def rate(self) -> float:
        """Commands a second."""
        return self.count / self.elapsed_s if self.elapsed_s else 0.0

    def quantile_ms(self, share: float) -> float:
        """The time of a round trip that `share` of them stayed within, in milliseconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else 0.0


@click.command("bench", short_help="Measure the usual commands from here, in a few seconds.")
@url_option
@click.option(
    "--seconds", type=click.FloatRange(0.1, 600), default=1.0, show_default=True, help="How long for each command."
)
@click.option("--pipeline", type=click.IntRange(1, 1000), default=1, show_default=True, help="Commands sent at once.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON instead of a table.")
def bench(url: str, seconds: float, pipeline: int, as_json: bool) -> int:
    """Measure the usual commands against a running server, on names of its own that it removes again."""
    client = connected(url)
    work = Workload(client, f"amemdb-bench:{secrets.token_hex(6)}".encode())
    results: list[Measured] = []
    try:
        with _progress(len(work.requests), seconds) as advance:
            work.prepare()
            for name, request in work.requests.items():
                results.append(measure(client, name, request, seconds, pipeline, advance))
    except redis.ResponseError as error:
        raise click.UsageError(f"the server refused to prepare for it: {readable(str(error))}") from None
    except redis.RedisError as error:
        raise click.UsageError(reason_of(error, url)) from None
    finally:
        work.clean_up()
        client.close()
    if as_json:
        click.echo(json.dumps([_figures(result) for result in results]))
    else:
        _show(results, address_of(url), pipeline)
    return 1 if any(result.refusal for result in results) else 0


class Workload:
    """The requests, each made anew for every call, on names that begin with `name`."""

    def __init__(self, client: Any, name: bytes) -> None:
        self._client = client
        self._name = name
        chance = random.Random(1)
        self._vectors = [
            struct.pack(f"<{DIMENSION}f", *(chance.gauss(0, 1) for _ in range(DIMENSION))) for _ in range(64)
        ]
        number = iter(range(1 << 60))

        def vector() -> bytes:
            return self._vectors[next(number) % len(self._vectors)]

        self.requests: dict[str, Callable[[], Request]] = {
            "PING": lambda: ("PING",),
            "SET": lambda: ("SET", name, TEXT, "EX", LIFE_S),
            "GET": lambda: ("GET", name),
            "AMEM.CONV.APPEND": lambda: ("AMEM.CONV.APPEND", name, "user", TEXT),
            f"AMEM.CONV.WINDOW {TURNS_READ}": lambda: ("AMEM.CONV.WINDOW", name, TURNS_READ),
            "AMEM.WORK.SET": lambda: ("AMEM.WORK.SET", name, "note", TEXT),
            "AMEM.WORK.GET": lambda: ("AMEM.WORK.GET", name, "note"),
            "AMEM.EPIS.LOG": lambda: ("AMEM.EPIS.LOG", name, "action", TEXT),
            f"AMEM.EPIS.QUERY LIMIT {TURNS_READ}": lambda: ("AMEM.EPIS.QUERY", name, "LIMIT", TURNS_READ),
            "AMEM.SEM.STORE": lambda: ("AMEM.SEM.STORE", name, next(number) % FACTS, TEXT, "FP32", vector()),
            "AMEM.SEM.RECALL 5": lambda: ("AMEM.SEM.RECALL", name, 5, "FP32", vector()),
            "AMEM.SUMMARY.SET": lambda: ("AMEM.SUMMARY.SET", name, TEXT),
        }

    def prepare(self) -> None:
        """Make what the requests need: a session, a full namespace, a bounded log of events."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command("AMEM.CONV.CREATE", self._name, "TTL", LIFE_S)
        pipeline.execute_command("AMEM.SEM.CREATE", self._name, DIMENSION)
        pipeline.execute_command("AMEM.EPIS.RETAIN", self._name, "MAXLEN", 10_000, "MAXAGE", LIFE_S)
        for key in range(FACTS):
            vector = self._vectors[key % len(self._vectors)]
            pipeline.execute_command("AMEM.SEM.STORE", self._name, key, TEXT, "FP32", vector, "TTL", LIFE_S)
        pipeline.execute()

    def clean_up(self) -> None:
        """Remove everything again, as far as the server can be reached."""
        name = self._name
        for request in (
            ("DEL", name),
            ("AMEM.CONV.DROP", name),
            ("AMEM.SEM.DROP", name),
            ("AMEM.EPIS.CLEAR", name),
            ("AMEM.EPIS.RETAIN", name),
            ("AMEM.SUMMARY.DROP", name),
        ):
            try:
                self._client.execute_command(*request)
            except redis.RedisError as error:
                click.echo(
                    f"amemdb: could not clean up with {request[0]} {name.decode()}: {readable(str(error))}", err=True
                )


def measure(
    client: Any,
    name: str,
    request: Callable[[], Request],
    seconds: float,
    pipeline: int,
    advance: Callable[[str, float], None],
) -> Measured:
    """Send `request()` again and again for `seconds`; a refusal ends it."""
    result = Measured(name)
    clock = time.perf_counter
    started = told = clock()
    while True:
        before = clock()
        try:
            if pipeline == 1:
                client.execute_command(*request())
            else:
                several = client.pipeline(transaction=False)
                for _ in range(pipeline):
                    several.execute_command(*request())
                several.execute()
        except redis.ResponseError as error:
            result.refusal = str(error)
            break
        after = clock()
        result.count += pipeline
        result.seconds.append(after - before)
        if after - told > 0.1:
            advance(name, after - told)
            told = after
        if after - started >= seconds:
            break
    result.elapsed_s = clock() - started
    return result


# -- what is told ------------------------------------------------------------------------------------


@contextmanager
def _progress(count: int, seconds: float) -> Iterator[Callable[[str, float], None]]:
    if not sys.stderr.isatty():
        yield lambda name, passed: None
        return
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %  {task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("preparing", total=count * seconds)
        yield lambda name, passed: progress.update(task, advance=passed, description=name)


def _show(results: list[Measured], address: str, pipeline: int) -> None:
    console = new_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("command")
    for heading in ("commands/s", "p50 ms", "p99 ms", "max ms"):
        table.add_column(heading, justify="right")
    for result in results:
        if result.refusal:
            table.add_row(result.name, Text(readable(result.refusal), style="red"))
            continue
        times = (f"{result.quantile_ms(share):.2f}" for share in (0.5, 0.99, 1.0))
        table.add_row(result.name, f"{result.rate:,.0f}", *times)
    console.print(table)
    at_once = "one command at a time" if pipeline == 1 else f"{pipeline} commands at once, times are of a batch"
    cores = os.cpu_count() or 1
    console.print(
        Text(
            f"\n{readable(address)}, one connection, {at_once}; {DIMENSION}-dimensional vectors, {FACTS:,} facts.\n"
            "Client-side figures of a Python program "
            f"(redis-py {redis.__version__}, Python {platform.python_version()}, "
            f"{cores} {'core' if cores == 1 else 'cores'}): its own work is most of a short command's time, and the "
            "server can do more for several clients at once.",
            style="dim",
        )
    )


def _figures(result: Measured) -> dict[str, Any]:
    return {
        "command": result.name,
        "commands_per_second": round(result.rate, 1),
        **{
            f"p{name}_ms": round(result.quantile_ms(share), 4)
            for name, share in (("50", 0.5), ("99", 0.99), ("100", 1.0))
        },
        "count": result.count,
        **({"error": result.refusal} if result.refusal else {}),
    }
