"""Generated parsers held their arguments in variables that hid what they were about to call.

`cursor = cursor(argv[1])` cannot run, `keys.del_(ctx, keys)` calls a list, `count = len(argv)` hid the option COUNT,
and a function named `keys` took the place of the module.
"""

from __future__ import annotations

import builtins
from types import FunctionType

import pytest

from amemdb.commands import _generated
from amemdb.commands.declare import REGISTRY
from amemdb.commands.table import COMMANDS


@pytest.mark.parametrize("name", list(COMMANDS))
def test_no_variable_of_a_parser_hides_a_name_that_it_uses(name: str) -> None:
    run = _generated.RUN[name]
    assert isinstance(run, FunctionType)
    variables = run.__code__.co_varnames
    assert not set(variables) & (set(vars(_generated)) | set(vars(builtins)))


def test_no_parser_takes_the_place_of_a_module() -> None:
    functions = {run.__name__ for run in _generated.RUN.values()}
    modules = {spec.handler.__module__.rsplit(".", 1)[1] for spec in REGISTRY.values()}
    assert functions.isdisjoint(modules)
    assert len(functions) == len(_generated.RUN)
