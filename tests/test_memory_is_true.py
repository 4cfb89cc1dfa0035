"""What is counted as used is what the process grows by, for many objects of each kind, in both implementations."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amemdb import native
from tests.memory_load import KINDS
from tests.tidy.source import ROOT

COUNT = 200_000


@pytest.mark.skipif(sys.platform != "linux", reason="the sizes are those of glibc, and /proc tells")
@pytest.mark.parametrize("kind", KINDS)
def test_counted_is_what_memory_grows_by(kind: str) -> None:
    environment = {**os.environ, "AMEMDB_NATIVE": str(int(native.ENABLED))}
    command = [sys.executable, "-m", "tests.memory_load", kind, str(COUNT)]
    told = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120).stdout
    counted, grown = map(int, told.split())
    assert grown > 100 * COUNT
    assert abs(counted / grown - 1) < 0.15, f"{counted} bytes were counted, and memory grew by {grown}"
