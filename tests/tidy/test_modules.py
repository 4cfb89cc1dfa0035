"""Each module has a charter and a size that can be read; names say what a thing is."""

from __future__ import annotations

import ast
import re

import pytest

from amemdb import config_page
from amemdb.commands import families, generate, generate_native
from tests.tidy.source import GENERATED, GENERATED_NATIVE, ROOT, Module, native_files, package_modules, parse

LINES_MAX = 700
CHARTER_CHARACTERS_MIN = 30
REFERENCE_CHARACTERS_MIN = 20
"""Of a file that belongs to another, which it names."""
SAYS_NOTHING = {"util", "utils", "helper", "helpers", "manager", "common", "misc"}

TEST_MODULES = [parse(path) for path in sorted((ROOT / "tests").rglob("*.py"))]


def words(name: str) -> set[str]:
    """`NameIndex` and `name_index` are the words name and index."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def is_generated(module: Module) -> bool:
    """Whether it says that it is. Another test holds it to what generates it."""
    return (ast.get_docstring(module.tree) or "").endswith("do not edit.")


@pytest.mark.parametrize("module", package_modules(), ids=lambda module: module.name)
def test_a_module_opens_with_its_charter(module):
    charter = ast.get_docstring(module.tree) or ""
    assert len(charter) >= CHARTER_CHARACTERS_MIN, f"{module.name} does not say what it is for"
    assert "being written" not in charter, f"{module.name} is a placeholder"


@pytest.mark.parametrize(
    "module",
    [*(module for module in package_modules() if not is_generated(module)), *TEST_MODULES],
    ids=lambda module: module.name,
)
def test_a_module_is_one_idea(module):
    count = len(module.path.read_text(encoding="utf-8").splitlines())
    assert count <= LINES_MAX, f"{module.name} has {count} lines, which is two ideas"


@pytest.mark.parametrize("file", native_files(), ids=lambda file: file.name)
def test_a_native_file_says_what_it_is_for_and_is_one_idea(file):
    least = CHARTER_CHARACTERS_MIN if file.path.suffix == ".pyx" else REFERENCE_CHARACTERS_MIN
    assert len(file.charter) >= least, f"{file.name} does not say what it is for"
    assert file.text.count("\n") <= LINES_MAX, f"{file.name} is too long for one idea"


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


def test_the_table_of_native_commands_is_that_of_the_declarations():
    assert families.FAMILIES
    assert GENERATED_NATIVE.read_text(encoding="ascii") == generate_native.generate_native(), "run make generate"
    assert generate_native.RECORDS_PATH.read_text(encoding="ascii") == generate_native.generate_records()


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
