"""The command line: `amemdb serve`, `amemdb import`; `python -m amemdb` is the same.

A mistake of the user is one line on standard error and exit code 2, never a traceback. Each command is in a module of
`amemdb.cli`.
"""

from __future__ import annotations

import sys

import click
from click.exceptions import NoArgsIsHelpError

from amemdb import __version__
from amemdb.cli.import_ import import_
from amemdb.cli.serve import serve

USAGE_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130


@click.group(name="amemdb", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """An in-memory database for the memory of AI agents that speaks the Redis protocol."""


cli.add_command(serve)
cli.add_command(import_)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        result = cli.main(prog_name="amemdb", standalone_mode=False)
    except NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(USAGE_EXIT_CODE)
    except click.ClickException as error:
        click.echo(f"amemdb: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("amemdb: interrupted", err=True)
        sys.exit(INTERRUPTED_EXIT_CODE)
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
