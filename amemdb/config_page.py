"""Writes `docs/configuration.md` from the table of settings: `python -m amemdb.config_page`.

The file is checked in; a test compares it with what `page()` gives.
"""

from __future__ import annotations

from pathlib import Path

from amemdb.config import SETTINGS
from amemdb.setting import Setting

PATH = Path(__file__).parent.parent / "docs" / "configuration.md"

HEAD = """\
# Configuration

<!-- Written by `make generate` from the table in amemdb/config.py: change it there. -->

Every setting has one name. It can be given in four places; the first that has it decides:

1. a flag of the server: `amemdb serve --conv-window 500`
2. the environment: `AMEMDB_CONV_WINDOW=500`. An empty variable counts as not set. A variable that begins with
   `AMEMDB_` and names no setting is told as a warning when the server starts.
3. a TOML file, named by `--config FILE` or `AMEMDB_CONFIG`, with the names as flat keys: `conv-window = 500`
4. the default

What does not fit (an unknown name in a flag or in the file, a wrong type, a number out of bounds) is told in one line
that says where it stands, and the server does not start.

Sizes are numbers of bytes, or have a unit as in Redis: `64kb`, `64mb` and `1gb` count in 1,024s, `64k`, `64m` and `1g`
in 1,000s. In the TOML file numbers are numbers, sizes are numbers or strings, and a yes-or-no is `true` or `false`, or
the string `"yes"` or `"no"`.

`CONFIG GET pattern` tells the settings of a running server; those marked *at run time* can be changed with
`CONFIG SET name value`. [`CONFIG REWRITE`](command-line.md#config-rewrite) writes what is then in force into the file
that the server was started with: also what came from flags or variables, the password included. A password is better
given by the environment or the file than by a flag, which every user of the machine can see in the list of processes.

## Settings

| name | takes | default | at run time | what it is |
|---|---|---|---|---|
"""

VARIABLES = """
## Variables that are no settings

| variable | what it is |
|---|---|
| `AMEMDB_CONFIG` | The file of settings, as `--config` names it. |
| `AMEMDB_EMBEDDER_KEY` | The key of an [embedder's endpoint](embedders.md#the-key). |
| `AMEMDB_NATIVE` | `0` chooses plain Python, several times slower, over \
[native code](install.md#is-the-native-code-in-use), which is used with `1` or without it, where it was built. |
| `AMEMDB_URL` | The server that [the command line](command-line.md) talks to, as `--url` names it. |
"""

FACTS = """
## Facts

Tools ask for these by `CONFIG GET`. They cannot be set, because nothing else is true of this server.

| name | value | what it is |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    settings = [_row(setting) for setting in SETTINGS if not setting.fact]
    facts = [
        f"| `{setting.name}` | {_code(setting.kind.text(setting.default))} | {setting.doc} |"
        for setting in SETTINGS
        if setting.fact
    ]
    return HEAD + "\n".join(settings) + "\n" + VARIABLES + FACTS + "\n".join(facts) + "\n"


def _row(setting: Setting) -> str:
    unit = f" ({setting.unit})" if setting.unit and setting.unit != "bytes" else ""
    changeable = "yes" if setting.changeable else "no"
    default = _code(setting.kind.label(setting.default))
    return f"| `{setting.name}` | {setting.kind.expected}{unit} | {default} | {changeable} | {setting.doc} |"


def _code(text: str) -> str:
    return f"`{text}`" if text else "(empty)"


def main() -> None:
    """Write the page."""
    PATH.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
