"""The load programs, compiled once for each module that needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.loader import compile_loader, compile_pacer


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return compile_loader(folder), compile_pacer(folder)
