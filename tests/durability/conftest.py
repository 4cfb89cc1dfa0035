"""What the tests of the real process have in common: a server's clock and disk in the hand, and a disk that fills."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.faults import Faults, compiled

SMALL_DISK_BYTES = 8 << 20


@pytest.fixture(scope="session")
def faults_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`faults.c`, compiled."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler (Debian: gcc, libc6-dev)")
    return compiled(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def faults(faults_library: Path, tmp_path: Path) -> Faults:
    """Clock and disk of one server, which is to be started with `environment=faults.environment`."""
    return Faults(faults_library, tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
