"""Who may know whom, and what the deterministic core may not touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from amemdb import native
from tests.tidy.source import PACKAGE, Module, NativeFile, native_files, package_modules

FLOOR = {"limits", "errors"}
EVERYWHERE = {"native"}
"""Tells which of two implementations of the same thing is in use, and knows nobody."""
MAY_IMPORT: dict[str, set[str]] = {
    "__init__": {"client", "asyncio"},
    "asyncio": {"client"},
    "native": set(),
    "limits": set(),
    "errors": {"limits"},
    "clock": set(),
    "setting": FLOOR,
    "config": {"setting", *FLOOR},
    "config_page": {"config", "setting"},
    "commands_page": {"commands", "limits"},
    "config_file": {"config", "setting", *FLOOR},
    "protocol": FLOOR,
    "index": FLOOR,
    "embed": {"__init__", *FLOOR},
    "stores": {"index", *FLOOR},
    "commands": {"stores", "index", "protocol", "__init__", *FLOOR},
    "engine": {"commands", "stores", "index", "protocol", "__init__", *FLOOR},
    "persistence": {"stores", "index", *FLOOR},
    "server": {
        *("engine", "commands", "stores", "index", "protocol", "persistence", "embed"),
        *("config", "config_file", "setting", "clock", "__init__", *FLOOR),
    },
    "client": {"protocol", *FLOOR},
    "cli": {"server", "client", "protocol", "persistence", "stores", "config", "setting", "__init__", *FLOOR},
    "__main__": {"cli", "__init__"},
}
"""What each part may import besides itself. A part that is not here has to be given its place first."""

BUILD_STEPS = {"client/generate.py": {"commands"}}
"""Modules that write source files, and what they alone of their part may see; they are imported by no other module."""

CORE = {"protocol", "engine", "commands", "stores", "index"}
"""Replay, followers and a simulator agree because nothing here asks for the time, for chance, or for the outside."""
CORE_MODULES = {"persistence/codec.py"}
FORBIDDEN = {
    *("asyncio", "socket", "select", "selectors", "ssl", "threading", "subprocess", "multiprocessing", "concurrent"),
    *("time", "datetime", "random", "secrets", "uuid", "os", "pathlib", "tempfile", "shutil", "uvloop"),
}
EXEMPT = {
    ("commands/context.py", "random"),
    ("engine/state.py", "random"),
    ("commands/generate.py", "pathlib"),
    ("commands/generate_native.py", "pathlib"),
}
"""`Random` as the type of what the server hands in (see below), and the build steps that write source files."""
RANDOM_AS_TYPE = [PACKAGE / "commands" / "context.py", PACKAGE / "engine" / "state.py"]


def imported(module: Module) -> Iterator[tuple[str, str]]:
    """Every module imported, as `(top, second)`: `("amemdb", "stores")`, `("os", "path")`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}:{node.lineno} imports relatively"
            source = node.module or ""
            names = [source] if source != "amemdb" else [_submodule(alias.name) for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            yield top, rest.partition(".")[0]


def _submodule(name: str) -> str:
    """`from amemdb import x` imports a module x, or else a name of the package itself."""
    exists = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
    return f"amemdb.{name}" if exists else "amemdb.__init__"


def in_core(module: Module) -> bool:
    return module.layer in CORE or inside(module.path) in CORE_MODULES


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("module", package_modules(), ids=lambda module: module.name)
def test_imports_go_one_way(module):
    allowed = MAY_IMPORT[module.layer] | {module.layer} | EVERYWHERE | BUILD_STEPS.get(inside(module.path), set())
    for top, part in imported(module):
        if top == "amemdb":
            reference = part if part == "__init__" else part.removeprefix("_") or "__init__"
            assert reference in allowed, f"{module.name} may not import amemdb.{part}"


@pytest.mark.parametrize("file", native_files(), ids=lambda file: file.name)
def test_native_imports_go_the_same_way(file: NativeFile):
    for name in file.imported:
        top, _, rest = name.partition(".")
        part = rest.partition(".")[0]
        if top == "amemdb":
            allowed = MAY_IMPORT[file.layer] | {file.layer} | EVERYWHERE
            assert part.removeprefix("_") in allowed, f"{file.name} may not import {name}"
        assert file.layer not in CORE or top not in FORBIDDEN, f"{file.name} may not import {name}"
    for name in file.included:
        assert (file.path.parent / name).is_file(), f"{file.name} includes from another part: {name}"
        assert "/" not in name


def test_native_imports_are_seen():
    text = """
from libc.string cimport memcpy
from amemdb.stores._x cimport (
    Y,
)
    import socket
cimport cython
from amemdb import native, server
include 'a.pxi'
"""
    file = NativeFile(PACKAGE / "engine" / "_made_up.pyx", text)
    assert file.imported == ["libc.string", "amemdb.stores._x", "socket", "cython", "amemdb.native", "amemdb.server"]
    assert (file.included, file.layer) == (["a.pxi"], "engine")


def test_the_twins_are_those_that_are_listed():
    assert sorted(native.MODULES) == [file.module for file in native_files() if file.path.suffix == ".pyx"]


@pytest.mark.parametrize("module", package_modules(), ids=lambda module: module.name)
def test_the_type_checker_can_do_without_the_twins(module):
    """A module that imports one does so where only Python sees it, or there is a stub beside it."""
    guarded = {
        id(node)
        for branch in ast.walk(module.tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module in native.MODULES and id(node) not in guarded:
            stub = PACKAGE.parent.joinpath(*node.module.split(".")).with_suffix(".pyi")
            assert stub.is_file(), f"{module.name}:{node.lineno} imports {node.module}, which has no stub"


@pytest.mark.parametrize("module", [m for m in package_modules() if in_core(m)], ids=lambda module: module.name)
def test_the_core_asks_nothing_of_the_outside(module):
    for top, _ in imported(module):
        assert top not in FORBIDDEN or (inside(module.path), top) in EXEMPT, f"{module.name} may not import {top}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in ("open", "__import__", "input"), f"{module.name}:{node.lineno} reaches out"


@pytest.mark.parametrize("path", RANDOM_AS_TYPE, ids=inside)
def test_random_is_only_a_type(path):
    module = next(module for module in package_modules() if module.path == path)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            assert all(alias.name != "random" for alias in node.names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "Random", f"{module.name}:{node.lineno} makes randomness of its own"


def test_every_exemption_is_needed():
    used = {(inside(module.path), top) for module in package_modules() for top, _ in imported(module)}
    assert used >= EXEMPT
    assert all((PACKAGE / name).is_file() for name in CORE_MODULES)


def test_only_the_server_runs_an_event_loop():
    loops = ("asyncio", "uvloop")
    assert {module.layer for module in package_modules() for top, _ in imported(module) if top in loops} == {"server"}


def test_every_part_is_given_its_place():
    parts = {module.layer for module in package_modules()}
    assert parts == set(MAY_IMPORT)
    assert set().union(*MAY_IMPORT.values()) <= parts


def test_no_two_parts_know_each_other():
    """The table itself goes one way: no part can reach itself again through what it may import."""
    reachable = {part: set(known) for part, known in MAY_IMPORT.items()}
    for _ in reachable:
        for known in reachable.values():
            known |= set().union(*(reachable[part] for part in known))
    assert [part for part, known in reachable.items() if part in known] == []
