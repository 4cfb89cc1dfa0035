"""The code blocks of a page: where each stands, in which language, what is shown as its output, and what is not run.

A `text` block is the output of the block above it. A comment `<!-- not run: reason -->` right above a block keeps it
from being run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.source import ROOT

FENCE = re.compile(r"^( *)(`{3,}|~{3,}) *([\w-]*)(.*)$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
OUTPUT = "text"


@dataclass(frozen=True)
class Block:
    """One block; `line` is that of its fence. `not_run` is the reason why, empty for a block that runs."""

    page: Path
    line: int
    language: str
    text: str
    output: str | None = None
    not_run: str = ""

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page in their order. Refuses what it would otherwise pass over in silence."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    index, above = 0, ""
    while index < len(lines):
        fence = FENCE.match(lines[index])
        if fence is None:
            above = lines[index].strip() or above
            index += 1
            continue
        place = f"{page.relative_to(ROOT)}:{index + 1}"
        assert not fence[1], f"{place}: a block that is indented is not run; put it at the margin"
        assert fence[3], f"{place}: a block needs a language"
        assert not fence[4], f"{place}: no more than a language may stand behind the fence"
        end = lines.index(fence[2], index + 1)
        text = "\n".join(lines[index + 1 : end]) + "\n"
        reason = NOT_RUN.match(above)
        if fence[3] == OUTPUT and not reason:
            assert above == "```", f"{place}: the output of what?"
            assert found, f"{place}: the output of what?"
            assert found[-1].output is None, f"{place}: a second output"
            last = found.pop()
            found.append(Block(last.page, last.line, last.language, last.text, text, last.not_run))
        else:
            found.append(Block(page, index + 1, fence[3], text, None, reason[1] if reason else ""))
        index, above = end + 1, "```"
    return found


def fits(shown: str, printed: str) -> bool:
    """Whether `printed` is what the page shows; `…` there stands for anything within its line, or for whole lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else ".*".join(map(re.escape, line.split("…"))) + r" *\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None
