"""Every code block of README and docs runs as it stands, in the order of its page, and prints what the page shows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of, fits
from tests.docs.running import Reader
from tests.tidy.source import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = Counter({"docs/operations.md": 1, "docs/command-line.md": 1})
"""How many blocks of each page say that they are not run."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if "```" in page.read_text(encoding="utf-8")], ids=name)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(name(page), tmp_path)
    try:
        for block in blocks_of(page):
            if not block.not_run:
                _run(reader, block)
    finally:
        reader.close()


def _run(reader: Reader, block: Block) -> None:
    assert block.language in reader.languages, f"{block.place}: nobody knows how to run {block.language}"
    try:
        printed = reader.run(block)
    except Exception as error:
        error.add_note(f"in the block at {block.place}")
        raise
    if block.output is not None:
        assert fits(block.output, printed), f"{block.place} prints:\n{printed}"


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    left_out = [block for page in PAGES for block in blocks_of(page) if block.not_run]
    assert Counter(name(block.page) for block in left_out) == NOT_RUN
    assert all(len(block.not_run.split()) > 2 for block in left_out)


def test_the_quick_start_and_the_readme_have_blocks_of_every_kind_that_a_newcomer_types() -> None:
    for page in ("README.md", "docs/quick-start.md"):
        assert {block.language for block in blocks_of(ROOT / page)} >= {"sh", "redis", "python"}


def test_what_is_shown_is_compared_to_the_letter() -> None:
    assert fits("a\n", "a\n")
    assert not fits("a\n", "b\n")
    assert not fits("a\n", "a\nb\n")
    assert not fits("a\nb\n", "a\n")
    assert fits("at …ms\n", "at 12ms\n")
    assert not fits("at …ms\n", "at 12s\n")
    assert fits("a\n…\nz\n", "a\nb\nc\nz\n")
    assert not fits("a.c\n", "abc\n")


def test_a_block_that_would_be_passed_over_is_refused(tmp_path: Path) -> None:
    for text in ("```\nplain\n```\n", " ```sh\nls\n ```\n", "```text\nof nothing\n```\n", "```sh title=x\nls\n```\n"):
        page = ROOT / "docs" / "not-there.md"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "read_text", lambda self, text=text, **options: text)
            with pytest.raises(AssertionError):
                blocks_of(page)
