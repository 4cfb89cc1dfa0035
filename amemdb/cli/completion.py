"""`amemdb completion`: what a shell has to read so that Tab completes the commands and options of `amemdb`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_AMEMDB_COMPLETE"


@click.command(
    "completion",
    short_help="Print what makes a shell complete amemdb's options.",
    epilog='bash: eval "$(amemdb completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. '
    "fish: amemdb completion fish > ~/.config/fish/completions/amemdb.fish",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script of SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "amemdb", VARIABLE).source())
    return 0
