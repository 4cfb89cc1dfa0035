"""The sources as the tidy tests see them: every module parsed, every file that belongs to the repository."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "amemdb"
GENERATED = PACKAGE / "commands" / "_generated.py"


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
        part in ("__pycache__", "build", "dist") or part.endswith(".egg-info") or part.startswith((".", "amemdb-data"))
    )
