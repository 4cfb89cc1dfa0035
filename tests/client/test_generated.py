"""The generated methods: those of the declarations, complete, and with HotKV's parameters where it has the method."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hotkv
import pytest
import redis
import redis.asyncio

import amemdb
import amemdb.asyncio
from amemdb.client import _replies, _requests, generate, options, shapes, sync_client
from amemdb.commands.declare import REGISTRY, Option
from amemdb.protocol.reply import INTEGER, ArrayOf

METHODS = generate.methods()
CLASSES = (amemdb.Client, amemdb.asyncio.Client, sync_client.Pipeline, amemdb.asyncio.Pipeline)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return generate.modules()


def test_the_modules_are_those_of_the_declarations(written: dict[str, str]) -> None:
    folder = Path(generate.__file__).parent
    for name, source in written.items():
        assert (folder / name).read_text(encoding="utf-8") == source, f"{name}: run make generate"


@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: f"{owner.__module__}.{owner.__name__}")
def test_every_command_has_a_method(owner: type) -> None:
    declared = {name for name in REGISTRY if name.startswith("AMEM.")}
    assert len(declared) > 35
    assert {name for name in dir(owner) if name.startswith("amem_") and not name.endswith("_iter")} == {
        name.lower().replace(".", "_") for name in declared
    }
    assert set(_replies.CALLBACKS) == declared


def test_every_option_of_a_command_can_be_given() -> None:
    for method in METHODS:
        source = inspect.getsource(getattr(_requests, method.request))
        for option in method.spec.options:
            if isinstance(option, Option):
                assert f'"{option.word}"' in source


def test_nothing_in_the_tables_is_stale() -> None:
    specs = {method.spec.name: method.spec for method in METHODS}
    integers = {name for name, spec in specs.items() if spec.reply is INTEGER}
    assert integers == generate.BOOLEANS | generate.INTEGERS
    assert not generate.BOOLEANS & generate.INTEGERS
    assert specs.keys() >= generate.RETURNS.keys() | generate.RICH.keys()
    arguments = {
        (spec.name, name)
        for spec in specs.values()
        for name in [
            *(argument.name for argument in spec.positionals),
            *(option.variable for option in spec.options if isinstance(option, Option)),
        ]
    }
    assert arguments >= generate.NAMES_OF.keys()
    assert {name for _, name in arguments} >= generate.NAMES.keys() | generate.KINDS.keys()
    for command, label in generate.WORDS:
        shape = specs[command].reply
        assert label in (shape.item if isinstance(shape, ArrayOf) else shape).fields


def test_the_dicts_have_the_labels_of_the_replies() -> None:
    """What a reply may hold is what its most complete dict declares."""
    compared = 0
    for name, returns in generate.RETURNS.items():
        declared = (returns.flagged or returns.type).replace("tuple[str, ", "")
        typed_dict = getattr(shapes, re.findall(r"\w+", declared.removeprefix("list["))[0], None)
        if typed_dict is not None:
            shape: Any = REGISTRY[name].reply
            while not hasattr(shape, "fields"):
                shape = shape.items[1] if hasattr(shape, "items") else shape.item
            assert set(shape.fields) == _all_annotations(typed_dict), name
            compared += 1
    assert compared == len(generate.RETURNS) - len({"AMEM.WORK.GETALL", "AMEM.SUMMARY.GET"})


def _all_annotations(typed_dict: Any) -> set[str]:
    return set(typed_dict.__required_keys__ | typed_dict.__optional_keys__)


HOTKV_METHODS = [name for name in dir(hotkv.HotKV) if name.startswith("amem_")]


@pytest.mark.parametrize("name", HOTKV_METHODS)
def test_the_parameters_of_hotkv_are_ours(name: str) -> None:
    theirs = inspect.signature(getattr(hotkv.HotKV, name)).parameters
    for owner in CLASSES:
        ours = inspect.signature(getattr(owner, name)).parameters
        positional = [p.name for p in ours.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == [p.name for p in theirs.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        for parameter in theirs.values():
            assert ours[parameter.name].kind is parameter.kind
            may_be_left_out = parameter.name == "vector" and ours[parameter.name].default is None
            assert ours[parameter.name].default is parameter.default or may_be_left_out


@pytest.mark.parametrize(
    ("client", "typed_dict", "named"),
    [
        (redis.Redis, options.SyncOptions, {"self", "host", "port", "db", "decode_responses", "connection_pool"}),
        (
            redis.asyncio.Redis,
            options.AsyncOptions,
            {"self", "host", "port", "db", "decode_responses", "connection_pool"},
        ),
    ],
)
def test_the_options_are_those_of_redis_py(client: type, typed_dict: Any, named: set[str]) -> None:
    taken = set(inspect.signature(client.__init__).parameters)  # type: ignore[misc]
    assert set(typed_dict.__annotations__) | _all_annotations(typed_dict) == taken - named


def test_the_generator_is_imported_by_nothing() -> None:
    package = Path(amemdb.__file__).parent
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert (node.module, [a.name for a in node.names]) != ("amemdb.client", ["generate"])
                assert node.module != "amemdb.client.generate"


@pytest.mark.parametrize(
    ("imports", "absent"),
    [
        ("import amemdb, amemdb.server.run", "redis"),
        ("import amemdb.asyncio; from amemdb import Client, from_url; Client()", "amemdb.commands"),
        ("import amemdb; amemdb.from_url('amemdb://localhost'); amemdb.asyncio.Client()", "numpy"),
    ],
)
def test_what_is_not_needed_is_not_imported(imports: str, absent: str) -> None:
    program = f"{imports}\nimport sys\nprint({absent!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
