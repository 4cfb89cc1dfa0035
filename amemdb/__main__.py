"""The command line: `amemdb serve`, `cli`, `import` and the others; `python -m amemdb` is the same.

A mistake of the user is one line on standard error and exit code 2, never a traceback. Each command is in a module of
`amemdb.cli`, which is loaded when the command is called: a server has no use for what draws tables.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import cast

import click
from click.exceptions import NoArgsIsHelpError

from amemdb import __version__

USAGE_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130

COMMANDS = {
    "serve": "serve:serve",
    "cli": "shell:cli",
    "info": "info:info",
    "doctor": "doctor:doctor",
    "bench": "bench:bench",
    "import": "import_:import_",
    "export": "export:export_",
    "backup": "backup:backup",
    "restore": "restore:restore",
    "check": "check:check",
    "dump": "dump:dump",
    "completion": "completion:completion",
}
"""Each command's module in `amemdb.cli` and its name there, in the order in which people need them."""


class _LoadedWhenCalled(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        return cast(click.Command, getattr(import_module(f"amemdb.cli.{module}"), name)) if name else None


@click.group(
    name="amemdb",
    cls=_LoadedWhenCalled,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """An in-memory database for the memory of AI agents that speaks the Redis protocol."""


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.stdout is None:  # it was closed: what would be said there is said to nobody
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the end)
    if isinstance(sys.stdout, TextIOWrapper):  # what the terminal's encoding has no character for is shown as an escape
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = cli.main(prog_name="amemdb", standalone_mode=False)
    except NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(USAGE_EXIT_CODE)
    except click.ClickException as error:
        click.echo(f"amemdb: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        click.echo("amemdb: what it had to say could not be written: no space left", err=True)
        os._exit(1)  # or the same would be met again on the way out
    except (click.Abort, KeyboardInterrupt):
        click.echo("amemdb: interrupted", err=True)
        sys.exit(INTERRUPTED_EXIT_CODE)
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
