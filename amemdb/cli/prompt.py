"""The prompt of `amemdb cli`: history, completion from the server's own documentation, a line of help below.

Everything that reads a terminal is here; what a line does is `amemdb.cli.shell`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from amemdb.cli.catalogue import Catalogue
from amemdb.cli.history import SafeHistory, path_of
from amemdb.cli.link import Link

OWN_WORDS = ("help", "exit", "clear")
STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "bottom-toolbar.text": "", "help": "#888888", "name": "bold"})


class WordCompleter(Completer):
    """Names of commands at the beginning of a line, then the words of the command."""

    def __init__(self, catalogue: Callable[[], Catalogue]) -> None:
        self._catalogue = catalogue

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What may stand at the cursor."""
        text = document.text_before_cursor
        words, current = _words(text)
        catalogue = self._catalogue()
        found = catalogue.find(words)
        if found is not None:
            command, given = found
            for word in command.next_words(given):
                if word.upper().startswith(current.upper()):
                    yield Completion(word, -len(current))
        if len(words) <= 1:
            yield from _names(catalogue, text.lstrip(), words, current)


def _names(catalogue: Catalogue, text: str, words: list[str], current: str) -> Iterator[Completion]:
    if words[:1] == ["help"]:
        text = current
    elif words and catalogue.find(words) is not None and not current:
        return
    for command in catalogue.beginning(text):
        yield Completion(command.name, -len(text), display_meta=command.summary)
    for word in OWN_WORDS:
        if not words and current and word.startswith(current.lower()):
            yield Completion(word, -len(current), display_meta="of this prompt")


def _words(text: str) -> tuple[list[str], str]:
    """The words that are complete, and the one that is being typed. Quoted parts need not be told apart exactly."""
    words = text.split()
    return (words, "") if not words or text[-1:].isspace() else (words[:-1], words[-1])


class Prompt:
    """Reads lines until the end."""

    def __init__(self, link: Link, catalogue: Callable[[], Catalogue]) -> None:
        self._link = link
        self._catalogue = catalogue
        self._session: PromptSession[str] = PromptSession(
            history=SafeHistory(path_of(os.environ)),
            completer=WordCompleter(catalogue),
            complete_while_typing=False,
            complete_style=CompleteStyle.COLUMN,
            bottom_toolbar=self._help,
            style=STYLE,
            reserve_space_for_menu=6,
        )

    def lines(self) -> Iterator[str]:
        """What is typed, line by line; Ctrl-C gives a line up, Ctrl-D ends."""
        while True:
            try:
                yield self._session.prompt(self._place())
            except KeyboardInterrupt:
                continue
            except EOFError:
                return

    def _place(self) -> str:
        if not self._link.is_connected:
            return "not connected> "
        database = f"[{self._link.db}]" if self._link.db else ""
        return f"{self._link.address}{database}{'(TX)' if self._link.in_transaction else ''}> "

    def _help(self) -> StyleAndTextTuples:
        """Syntax and meaning of the command that is being typed."""
        words = self._session.default_buffer.document.text.split()
        catalogue = self._catalogue()
        found = catalogue.find(words)
        if found is None and words:
            near = catalogue.beginning(" ".join(words[:2]))
            if len(near) != 1:
                return [("class:help", " Tab completes, 'help' lists the commands, Ctrl-D leaves")]
            command = near[0]
        elif found is not None:
            command = found[0]
        else:
            return [("class:help", " Tab completes, 'help' lists the commands, Ctrl-D leaves")]
        width = self._session.app.output.get_size().columns
        syntax = command.syntax[len(command.name) :]
        room = max(0, width - len(command.name) - 2)
        if len(syntax) > room:
            syntax = syntax[: room - 1] + "…"
        return [("class:name", f" {command.name}"), ("", syntax), ("class:help", f"\n {command.summary}"[: width + 1])]
