"""The site is built without a warning: every page has its place, every link and anchor leads somewhere."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="needs mkdocs-material, which the dev extra installs"
)


def test_the_site_is_built_strictly(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [page for page in sorted(pages) if not (tmp_path / page).is_file()] == []
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<a href="quick-start.html">quick start</a>' in home
    assert "fonts.googleapis.com" not in home
