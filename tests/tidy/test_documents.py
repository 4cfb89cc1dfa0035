"""What is written for people: links lead somewhere, and nothing of a developer's machine has slipped in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amemdb.cli.findings import LAG_MS_HIGH, LAG_MS_WORST, MEMORY_SHARE_HIGH
from amemdb.client.import_format import KINDS
from amemdb.commands.table import COMMANDS
from tests.tidy.source import ROOT, repository_files

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

PAGES = [path for path in repository_files() if path.suffix == ".md"]
LOCAL = ("/ho" + "me/", "/ro" + "ot/", "/t" + "mp/", "/Us" + "ers/")
REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "deb." + "debian.org",
    "proxy.golang" + ".org",
)
NEEDED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run", "docs/import-format.md")


def anchors(page: Path) -> set[str]:
    """What a `#fragment` may name: each heading in lower case, without punctuation, with dashes for blanks."""
    text = _CODE.sub(lambda code: "" if "\n" in code[0] else code[0].strip("`"), page.read_text(encoding="utf-8"))
    headings = _HEADING.findall(text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{target} leads nowhere"
        assert linked.is_relative_to(ROOT), f"{target} leads out of the repository"
        assert not fragment or fragment in anchors(linked), f"{target}: no such heading"


def test_nothing_of_a_machine_or_registry_is_in_the_repository():
    here = [f"{path}/" for path in (ROOT.parent, Path.home()) if len(path.parts) > 2]
    unwanted = [text.encode() for text in (*here, *LOCAL, *REGISTRIES)]
    found = [
        f"{path.relative_to(ROOT)}: {text.decode()}"
        for path in repository_files()
        for text in unwanted
        if text in path.read_bytes()
    ]
    assert found == []


@pytest.mark.parametrize("name", NEEDED)
def test_what_a_repository_needs_is_there(name):
    assert (ROOT / name).stat().st_size > 0


def test_the_import_format_is_described_completely():
    page = (ROOT / "docs" / "import-format.md").read_text(encoding="utf-8")
    sections = {section.split("\n", 1)[0].strip("`"): section for section in page.split("\n### ")[1:]}
    assert set(sections) == set(KINDS)
    for kind, shape in KINDS.items():
        for field in shape.fields:
            assert f"`{field.name}`" in sections[kind], f"{kind}.{field.name} is not described"
            assert not field.alias or f"`{field.alias}`" in sections[kind]
        assert shape.command.decode() in sections[kind]


def test_operations_and_doctor_worry_from_the_same_figures_on():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (lag,) = [line for line in page.splitlines() if line.startswith("| `event_loop_lag_usec`")]
    assert f"Lately above {LAG_MS_HIGH * 1000:,} " in lag
    assert f"a worst above {LAG_MS_WORST * 1000:,} " in lag
    assert f"from {MEMORY_SHARE_HIGH:.0%} of it on".replace("%", " %") in page


def test_what_is_said_not_to_be_there_is_not_there():
    page = (ROOT / "docs" / "from-redis.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"that are an error here: (.*?)\n\n", page, re.DOTALL)
    words = set(re.findall(r"`([A-Z]+)`", named)) - {"SLOWLOG"}
    assert words == {"WAIT", "MONITOR", "LATENCY", "ACL"}
    assert not words & {name.partition("|")[0] for name in COMMANDS}


def test_decisions_are_numbered_without_a_gap():
    numbers = sorted(path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_every_decision_is_listed_with_its_title():
    listed = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert f"- [{title}](decisions/{path.name})" in listed
