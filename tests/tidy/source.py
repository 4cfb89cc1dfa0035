"""The sources as the tidy tests see them: every module parsed, every file that belongs to the repository.

Cython's files are read line by line, as nothing here parses them: their imports stand at the beginning of a line.
"""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "amemdb"
GENERATED = PACKAGE / "commands" / "_generated.py"
GENERATED_NATIVE = PACKAGE / "engine" / "_hot_table.pxi"
_HEAD = re.compile(r'\A\s*(?:"""(.*?)"""|((?:#[^\n]*\n)+))', re.DOTALL)
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import\b(.*)|c?import[ \t]+([\w., \t]+))", re.MULTILINE)
_INCLUDE = re.compile(r"""^[ \t]*include[ \t]+["'](.+)["']""", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        """Path from the root of the repository, for messages."""
        return str(self.path.relative_to(ROOT))

    @property
    def layer(self) -> str:
        """The part of the package that it belongs to: its folder, or its own name at the top."""
        relative = self.path.relative_to(PACKAGE)
        return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def parse(path: Path) -> Module:
    """The module at `path`."""
    return Module(path, ast.parse(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class NativeFile:
    """One file of Cython: `.pyx`, `.pxd` or `.pxi`."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Path from the root of the repository, for messages."""
        return str(self.path.relative_to(ROOT))

    @property
    def module(self) -> str:
        """What it is called when it is imported."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    @property
    def layer(self) -> str:
        """The part of the package that it belongs to; at the top, that of the module whose twin it is."""
        relative = self.path.relative_to(PACKAGE)
        return relative.parts[0] if len(relative.parts) > 1 else relative.stem.removeprefix("_")

    @property
    def charter(self) -> str:
        """What it says of itself at its head, in a docstring or a comment."""
        head = _HEAD.match(self.text)
        return "" if head is None else (head[1] or head[2])

    @property
    def included(self) -> list[str]:
        """The files that become a part of it."""
        return _INCLUDE.findall(self.text)

    @property
    def imported(self) -> list[str]:
        """Every module imported or cimported, by its full name."""
        found = []
        for source, names, modules in _IMPORT.findall(self.text):
            if source == "amemdb":
                found += [f"amemdb.{name.split()[0]}" for name in names.strip(" ()").split(",")]
            else:
                found += [source] if source else [module.split()[0] for module in modules.split(",")]
        return found


@cache
def native_files() -> list[NativeFile]:
    """Every file of Cython in the package."""
    paths = sorted(path for path in PACKAGE.rglob("_*") if path.suffix in (".pyx", ".pxd", ".pxi"))
    return [NativeFile(path, path.read_text(encoding="utf-8")) for path in paths]


@cache
def package_modules() -> list[Module]:
    """Every module of the package."""
    return [parse(path) for path in sorted(PACKAGE.rglob("*.py"))]


@cache
def repository_files() -> list[Path]:
    """Every file that is or will be under version control; where there is no git, what tools did not make."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        found = [ROOT / name.decode() for name in listing.stdout.split(b"\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not any(map(_made_by_a_tool, path.relative_to(ROOT).parts))]
    return [path for path in found if path.is_file()]


def _made_by_a_tool(part: str) -> bool:
    return (
        part in ("__pycache__", "build", "dist", "_built_from.txt")
        or part.endswith((".egg-info", ".so"))
        or part.startswith((".", "amemdb-data"))
    )
