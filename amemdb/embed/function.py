"""An embedder that is a function of yours: `callable:package.module:function`.

The function takes a list of texts and gives one vector a text: an array of rows, or any rows of numbers. Whatever it
raises is its failure to embed, told with the class and text of what it raised. It is called by one thread at a time.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from amemdb.embed.embedder import Embedder, EmbedError


class FunctionEmbedder(Embedder):
    """Calls `function`."""

    def __init__(self, name: str, function: Callable[[list[str]], Any]) -> None:
        super().__init__(name)
        self._function = function

    def _answer(self, texts: list[str]) -> Any:
        try:
            return self._function(list(texts))
        except (Exception, SystemExit) as error:  # it is not ours: whatever it raises, no vector was made
            raise self._failed(f"{type(error).__name__}: {error}", texts_at_fault=True) from error


def imported(target: str) -> Callable[[list[str]], Any]:
    """The function that `package.module:function` names. The folder the program runs in is looked in last.

    Raises `EmbedError`.
    """
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise EmbedError(target, "expected callable:package.module:function")
    here = os.getcwd()
    sys.path.append(here)
    try:
        found: Any = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:  # a module runs code of its own when it is imported
        raise EmbedError(target, f"cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise EmbedError(target, f"is no function but {type(found).__name__}")
    function: Callable[[list[str]], Any] = found
    return function
