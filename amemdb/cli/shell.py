"""`amemdb cli`: commands to a server, at a prompt, from a pipe, or one from the command line.

Exit codes: 0, 1 when the server refused a command, 2 when it was called wrongly or the server could not be reached.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from amemdb.cli.catalogue import Catalogue
from amemdb.cli.connection import Unreachable, url_option
from amemdb.cli.link import Link, LoginNeeded
from amemdb.cli.replies import as_json, bare, error_line, pretty
from amemdb.cli.showing import console as new_console
from amemdb.cli.showing import readable
from amemdb.protocol.inline import split_inline

REFUSED = 1
LINE_BYTES_MAX = 512 * 1024 * 1024
LOGINS = (b"AUTH", b"HELLO")
UNBALANCED = "a quote is not closed, or something follows a closing one"

Show = Callable[[list[bytes], Any], None]


@click.command(
    "cli",
    short_help="Talk to a server: a prompt, or one command.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Without COMMAND: a prompt, or the lines of a pipe. Quoting is that of Redis.",
)
@url_option
@click.option("--json", "form", flag_value="json", help="Each reply as one line of JSON.")
@click.option(
    "--raw", "form", flag_value="raw", help="Values as they are, one a line; the default when not on a terminal."
)
@click.option("--pretty", "form", flag_value="pretty", help="For a reader, also when not on a terminal.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def cli(ctx: click.Context, url: str, form: str | None, command: tuple[str, ...]) -> int:
    """Send COMMAND to the server and show its reply. Options stand before COMMAND: what follows is sent."""
    link = Link(url)
    show = _shower(form or ("pretty" if sys.stdout.isatty() else "raw"))
    try:
        if command:
            return _once(link, show, ctx, command)
        if sys.stdin.isatty():
            return _prompted(link, show)
        return _piped(link, show, sys.stdin.buffer)
    except Unreachable as error:
        raise click.UsageError(str(error)) from None
    finally:
        link.close()


def _shower(form: str) -> Show:
    if form == "json":
        return lambda argv, reply: _write(as_json(reply).encode("utf-8"))
    if form == "raw":
        return _show_bare
    console = new_console()
    return lambda argv, reply: console.print(pretty(argv, reply))


def _show_bare(argv: list[bytes], reply: Any) -> None:
    """Errors go to standard output as well, as redis-cli has them: a pipe's lines stay in step with its commands."""
    _write(b"\n".join(bare(reply)))


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def _once(link: Link, show: Show, ctx: click.Context, command: tuple[str, ...]) -> int:
    argv = [os.fsencode(word) for word in command]
    try:
        reply = link.ask(argv)
    except Unreachable:
        _tell_misplaced_options(ctx, command)
        raise
    show(argv, reply)
    if not _is_refusal(reply):
        return 0
    _tell_misplaced_options(ctx, command)
    return REFUSED


def _tell_misplaced_options(ctx: click.Context, command: tuple[str, ...]) -> None:
    """That an option behind the command was sent as an argument. Values are not repeated: a URL may hold a password."""
    known = {word for parameter in ctx.command.get_params(ctx) for word in parameter.opts if word.startswith("--")}
    for word in command[1:]:
        option = word.partition("=")[0]
        if option in known:
            name = readable(command[0])
            click.echo(
                f"amemdb: {option} was sent as an argument: options go before the command, "
                f"as in 'amemdb cli {option} … {name}'",
                err=True,
            )
            return


def _piped(link: Link, show: Show, stream: BinaryIO) -> int:
    """Every line is sent, whatever became of those before."""
    code = 0
    number = 0
    while line := stream.readline(LINE_BYTES_MAX):
        number += 1
        argv = split_inline(line.rstrip(b"\n"))
        if argv is None:
            click.echo(f"amemdb: line {number}: {UNBALANCED}", err=True)
            code = REFUSED
        elif argv:
            reply = link.ask(argv)
            show(argv, reply)
            if _is_refusal(reply):
                code = REFUSED
            if argv[0].upper() == b"QUIT":
                break
    return code


def _is_refusal(reply: Any) -> bool:
    """An error, or a transaction with one in it."""
    return isinstance(reply, Exception) or (isinstance(reply, list) and any(isinstance(e, Exception) for e in reply))


# -- the prompt --------------------------------------------------------------------------------------


def _prompted(link: Link, show: Show) -> int:
    from amemdb.cli.prompt import Prompt

    console = new_console()
    catalogue = Catalogue()
    try:
        _greet(link, console)
    except LoginNeeded:
        link.log_in_with(click.prompt(f"Password for {link.address}", hide_input=True))
        _greet(link, console)
    catalogue.commands = _read_catalogue(link).commands
    for line in Prompt(link, lambda: catalogue).lines():
        argv = split_inline(line.encode("utf-8", "surrogateescape"))
        if argv is None:
            console.print(Text(UNBALANCED, style="red"))
            continue
        if not argv:
            continue
        word = argv[0].lower()
        if word in (b"exit", b"quit"):
            break
        if word == b"clear" and len(argv) == 1:
            console.clear()
        elif word == b"help":
            _help(console, catalogue, " ".join(token.decode("utf-8", "replace") for token in argv[1:]))
        else:
            _ask(link, show, console, argv)
            if argv[0].upper() in LOGINS or (not catalogue.commands and link.is_connected and not link.in_transaction):
                catalogue.commands = _read_catalogue(link).commands
    return 0


def _ask(link: Link, show: Show, console: Console, argv: list[bytes]) -> None:
    try:
        show(argv, link.ask(argv))
    except Unreachable as error:
        console.print(Text(readable(str(error)), style="red"))
    except KeyboardInterrupt:
        console.print(Text("given up; the server may still do it. The connection was closed.", style="yellow"))


def _greet(link: Link, console: Console) -> None:
    """Who is there, or what to do."""
    told = link.ask([b"INFO", b"server"])
    if isinstance(told, Exception):
        console.print(Text(f"{link.address}: {error_line(told)} Log in with: AUTH password", style="yellow"))
        return
    lines = dict(line.split(":", 1) for line in told.decode("utf-8", "replace").splitlines() if ":" in line)
    version = lines.get("amemdb_version")
    name = f"amemdb {version}" if version else f"Redis {lines.get('redis_version', '?')}"
    console.print(Text(readable(f"{name} at {link.address}"), style="dim"))


def _read_catalogue(link: Link) -> Catalogue:
    try:
        return Catalogue.of(link.ask([b"COMMAND", b"DOCS"]))
    except Unreachable:
        return Catalogue()


def _help(console: Console, catalogue: Catalogue, about: str) -> None:
    found = catalogue.find(about.split())
    if found is not None and not found[1]:
        command = found[0]
        console.print(Text(command.syntax, style="bold"), Text(f"{command.summary}  Cost: {command.cost}."), sep="\n")
        return
    wanted = about.lstrip("@").lower()
    chosen = (
        [c for c in catalogue.commands.values() if c.group == wanted] or catalogue.beginning(about) if about else []
    )
    if not chosen:
        if about:
            console.print(Text(f"no command or group begins with {readable(about)}", style="red"))
        console.print(Text("help COMMAND, or help GROUP with one of: " + ", ".join(catalogue.groups())))
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for command in sorted(chosen, key=lambda command: command.name):
        grid.add_row(command.name, Text(command.summary))
    console.print(grid)
