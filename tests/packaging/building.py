"""A package small enough to be built in a second or two, by the real setup.py: what tests of the build work on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.tidy.source import ROOT

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
ONE = '"""One."""\n\ninclude "_words.pxi"\n\n\ndef answer():\n    return ANSWER\n'
OTHER = '"""Other."""\n\n\ndef answer():\n    return 7\n'


class Checkout:
    """A folder with setup.py, pyproject.toml and a package `amemdb` of two twins, one of them with an include."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
            if (ROOT / name).exists():
                shutil.copy(ROOT / name, folder)
        for part in ("", "stores"):
            self.write(f"amemdb/{part}/__init__.py", "")
        self.write("amemdb/py.typed", "")
        self.write("amemdb/stores/_one.pyx", ONE)
        self.write("amemdb/stores/_one.pyi", "def answer() -> int: ...\n")
        self.write("amemdb/stores/_words.pxi", "# The answer.\nANSWER = 42\n")
        self.write("amemdb/stores/_other.pyx", OTHER)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def setup(self, *words: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run setup.py."""
        return subprocess.run(
            [sys.executable, str(self.folder / "setup.py"), *words],
            cwd=cwd or self.folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def build(self, **environ: str) -> subprocess.CompletedProcess[str]:
        """Build in place, as a developer does; must succeed."""
        done = self.setup("build_ext", "--inplace", **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    @property
    def built(self) -> list[str]:
        """What lies in the package and was built."""
        paths = [*self.folder.glob(f"amemdb/**/*{SUFFIX}"), *self.folder.glob("amemdb/_built_from.txt")]
        return sorted(path.relative_to(self.folder).as_posix() for path in paths)

    def ask(self, name: str) -> str:
        """What a twin answers."""
        code = f"from amemdb.stores import {name}; print({name}.answer())"
        return subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, capture_output=True, text=True
        ).stdout.strip()
