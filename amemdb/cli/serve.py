"""`amemdb serve`: the server, with an option for each setting of `amemdb.config`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from amemdb.config import SETTINGS, Config, ConfigError, variable_warnings
from amemdb.setting import Setting


def _option(setting: Setting) -> click.Option:
    default = setting.kind.label(setting.default) or "none"
    unit = f" {setting.unit}" if setting.unit and setting.unit != "bytes" else ""
    return click.Option(
        [f"--{setting.name}"],
        type=click.STRING,
        metavar=setting.kind.metavar,
        help=f"{setting.doc} [default: {default}{unit}]",
    )


def _serve(config: Path | None, **flags: str | None) -> int:
    given = {name.replace("_", "-"): text for name, text in flags.items() if text is not None}
    try:
        settings = Config.load(given, os.environ, config)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    for line in variable_warnings(os.environ):
        click.echo(f"amemdb: warning: {line}", err=True)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded; see amemdb.index.exact
    from amemdb.server.run import run

    return run(settings)


def _parameters() -> list[click.Parameter]:
    file = click.Option(
        ["--config"],
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="AMEMDB_CONFIG",
        metavar="FILE",
        help="TOML file with settings, their names as keys.",
    )
    return [file, *(_option(setting) for setting in SETTINGS if not setting.fact)]


serve = click.Command(
    "serve",
    params=_parameters(),
    callback=_serve,
    short_help="Run the server.",
    help="Run the server until SIGTERM or SIGINT.",
    epilog="Each option can also be given as an environment variable (AMEMDB_CONV_WINDOW for --conv-window) or in the "
    "file of --config (conv-window = 500). A flag goes before the environment, and that before the file.",
)
