"""Each module has a charter and a size that can be read; names say what a thing is."""

from __future__ import annotations

import ast
import re

import pytest

from amemdb import config_page
from amemdb.commands import families, generate
from tests.tidy.source import GENERATED, ROOT, Module, package_modules, parse

LINES_MAX = 700
CHARTER_CHARACTERS_MIN = 30
SAYS_NOTHING = {"util", "utils", "helper", "helpers", "manager", "common", "misc"}

TEST_MODULES = [parse(path) for path in sorted((ROOT / "tests").rglob("*.py"))]


def words(name: str) -> set[str]:
    """`NameIndex` and `name_index` are the words name and index."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("module", package_modules(), ids=lambda module: module.name)
def test_a_module_opens_with_its_charter(module):
    charter = ast.get_docstring(module.tree) or ""
    assert len(charter) >= CHARTER_CHARACTERS_MIN, f"{module.name} does not say what it is for"
    assert "being written" not in charter, f"{module.name} is a placeholder"


@pytest.mark.parametrize(
    "module", [*(m for m in package_modules() if m.path != GENERATED), *TEST_MODULES], ids=lambda module: module.name
)
def test_a_module_is_one_idea(module):
    count = len(module.path.read_text(encoding="utf-8").splitlines())
    assert count <= LINES_MAX, f"{module.name} has {count} lines, which is two ideas"


@pytest.mark.parametrize("module", [*package_modules(), *TEST_MODULES], ids=lambda module: module.name)
def test_names_say_what_a_thing_is(module: Module):
    named = [module.path.stem, module.path.parent.name]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            named.append(node.name)
    for name in named:
        assert not words(name) & SAYS_NOTHING, f"{name} in {module.name} says nothing"


def test_the_generated_parsers_are_those_of_the_declarations():
    assert families.FAMILIES
    assert GENERATED.read_text(encoding="ascii") == generate.generate(), "run make generate"


def test_the_page_of_settings_is_that_of_the_table():
    assert config_page.PATH.read_text(encoding="utf-8") == config_page.page(), "run make generate"


def test_no_pattern_repeats_possessively():
    """Possessive and atomic groups match wrongly in the `re` of Python 3.11.0 to 3.11.4, which we support."""
    broken = re.compile(rb"(?<!\\)[*+?}]\+|\(\?>")
    found = [
        f"{module.name}:{node.lineno}"
        for module in package_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes) and broken.search(node.value)
    ]
    assert found == []
