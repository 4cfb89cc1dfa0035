"""Writes `_generated.py`: one plain function a command that parses argv and calls the handler.

No generic walk over argument kinds remains at run time, which is most of what a command costs in Python. The file is
checked in; a test regenerates it and compares. Run it with `python -m amemdb.commands.generate`.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from amemdb.commands import parsing
from amemdb.commands.declare import REGISTRY, Arg, Bytes, Expiry, Name, Option, Rest, Spec, Vector
from amemdb.limits import NAME_BYTES_MAX

HEADER = '''"""Parse-and-call functions, one a command. Written by `python -m amemdb.commands.generate`: do not edit."""
# ruff: noqa

from __future__ import annotations

from collections.abc import Callable
from typing import Any

'''


def function_name(spec: Spec) -> str:
    """The generated function's name."""
    return "run_" + spec.name.lower().replace(".", "_").replace("|", "_").replace("-", "_")


def local(argument: str) -> str:
    """The variable that holds an argument: never the name of a module, a helper or a built-in."""
    return argument + "_"


def generate() -> str:
    """The whole source of `_generated.py` for what is in the registry."""
    functions = [line for spec in REGISTRY.values() for line in ("", *_function(spec), "")]
    modules = sorted({spec.handler.__module__.rsplit(".", 1)[1] for spec in REGISTRY.values()})
    called = set(re.findall(r"\b(\w+)\(", "\n".join(functions)))
    helpers = sorted(called & {name for name, value in vars(parsing).items() if inspect.isfunction(value)})
    lines = [HEADER.rstrip("\n")]
    lines += [f"from amemdb.commands import {module}" for module in modules]
    lines += ["from amemdb.commands.context import Context"]
    lines += ["from amemdb.commands.parsing import (", *(f"    {helper}," for helper in helpers), ")"]
    lines += ["from amemdb.errors import wrong_arity", "", *functions]
    lines += ["", "RUN: dict[str, Callable[[Context, list[bytes]], Any]] = {"]
    lines += [f"    {spec.name!r}: {function_name(spec)}," for spec in REGISTRY.values()]
    lines += ["}", ""]
    return "\n".join(lines)


def _function(spec: Spec) -> list[str]:
    body: list[str] = []
    arguments: list[str] = ["ctx"]
    index = spec.first
    dynamic = False
    for argument in spec.positionals:
        body += _positional(spec, argument, index)
        arguments.append(local(argument.name))
        dynamic = dynamic or isinstance(argument, Vector)
        index += 1
    if spec.options:
        if not dynamic:
            body.append(f"at = {index}")
        body += _options(spec)
        arguments += _option_variables(spec)
    elif dynamic:
        body += ["if at != len(argv):", "    unknown_option(argv[at])"]
    handler = f"{spec.handler.__module__.rsplit('.', 1)[1]}.{spec.handler.__name__}"
    body.append(f"return {handler}({', '.join(arguments)})")
    return [f"def {function_name(spec)}(ctx: Context, argv: list[bytes]) -> Any:", *("    " + line for line in body)]


def _positional(spec: Spec, argument: Arg, index: int) -> list[str]:
    variable = local(argument.name)
    if isinstance(argument, Name):
        return [
            f"{variable} = argv[{index}]",
            f"if not 0 < len({variable}) <= {NAME_BYTES_MAX}:",
            f"    name({variable}, {argument.name!r})",
        ]
    if isinstance(argument, Vector):
        return [f"{variable}, at = vector_tokens(argv, {index}, {_words(spec)})"]
    if isinstance(argument, Rest):
        lines = [f"{variable} = argv[{index}:]"]
        if argument.step > 1:
            lines += [f"if len({variable}) % {argument.step}:", f"    raise wrong_arity({spec.name!r})"]
        expression = argument.item.expression("token")
        if expression != "token":
            lines.append(f"{variable} = [{expression} for token in {variable}]")
        return lines
    return [f"{variable} = {argument.expression(f'argv[{index}]')}"]


def _words(spec: Spec) -> str:
    return "frozenset((" + "".join(f"{word.encode()!r}, " for word in sorted(spec.option_words)) + "))"


def _expected(spec: Spec) -> str:
    """What a refusal of a stray word says behind it: the options, and why a text may have fallen apart into words."""
    *words, last = spec.option_words
    text = f", expected {', '.join(words)} or {last}" if words else f", expected {last}"
    end = spec.positionals[-1] if spec.positionals else None
    return f"{text}; quote texts with blanks" if isinstance(end, Bytes) and end.is_free_text else text


def _option_variables(spec: Spec) -> list[str]:
    names = ["expire_at_ms" if isinstance(option, Expiry) else option.variable for option in spec.options]
    return [local(name) for name in dict.fromkeys(names)]


def _options(spec: Spec) -> list[str]:
    lines: list[str] = []
    for option in spec.options:
        flag = isinstance(option, Option) and option.value is None
        name = "expire_at_ms" if isinstance(option, Expiry) else option.variable
        lines.append(f"{local(name)} = {'False' if flag else 'None'}")
    lines = list(dict.fromkeys(lines))
    groups = sorted({option.group for option in spec.options if isinstance(option, Option) and option.group})
    lines += [f"group_{group} = False" for group in groups]
    lines += ["argc = len(argv)", "while at < argc:", "    word = argv[at].upper()"]
    keyword = "if"
    for option in spec.options:
        for branch in _expiry_branches(option) if isinstance(option, Expiry) else _option_branch(option):
            lines.append(f"    {keyword} {branch[0]}")
            lines += [f"        {line}" for line in branch[1:]]
            keyword = "elif"
    lines += ["    else:", f"        unknown_option(argv[at], {_expected(spec)!r})"]
    for option in spec.options:
        if isinstance(option, Expiry) and option.required:
            words = "TTL, PXAT or PERSIST" if option.persist else "TTL or PXAT"
            lines += ["if expire_at_ms_ is None:", f"    missing_option({words!r})"]
    return lines


def _option_branch(option: Option) -> list[list[str]]:
    lines = [f"word == {option.word.encode()!r}:"]
    variable = local(option.variable)
    seen = f"group_{option.group}" if option.group else variable
    if option.value is None:
        lines += [f"if {seen}:", "    repeated_option(argv[at])"]
        if option.group:
            lines.append(f"group_{option.group} = True")
        return [[*lines, f"{variable} = True", "at += 1"]]
    lines += [f"if {seen}:" if option.group else f"if {seen} is not None:", "    repeated_option(argv[at])"]
    lines += ["if at + 1 == argc:", "    missing_value(argv[at])"]
    if option.group:
        lines.append(f"group_{option.group} = True")
    return [[*lines, f"{variable} = {option.value.expression('argv[at + 1]')}", "at += 2"]]


def _expiry_branches(option: Expiry) -> list[list[str]]:
    branches = []
    for word, function in (("TTL", "ttl"), ("PXAT", "pxat")):
        branches.append(
            [
                f"word == {word.encode()!r}:",
                "if expire_at_ms_ is not None:",
                "    repeated_option(argv[at])",
                "if at + 1 == argc:",
                "    missing_value(argv[at])",
                f"expire_at_ms_ = {function}(argv[at + 1], ctx.now_ms)",
                "at += 2",
            ]
        )
    if option.persist:
        branches.append(
            [
                "word == b'PERSIST':",
                "if expire_at_ms_ is not None:",
                "    repeated_option(argv[at])",
                "expire_at_ms_ = 0",
                "at += 1",
            ]
        )
    return branches


def main() -> None:
    """Load every family and write the file beside this one, and the table of the native commands."""
    import amemdb.commands.families  # noqa: F401  (declares everything)
    from amemdb.commands import generate_native

    Path(__file__).with_name("_generated.py").write_text(generate(), encoding="ascii")
    generate_native.PATH.write_text(generate_native.generate_native(), encoding="ascii")
    generate_native.RECORDS_PATH.write_text(generate_native.generate_records(), encoding="ascii")


if __name__ == "__main__":
    main()
