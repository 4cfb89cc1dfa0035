"""The demo goes as written, tells what it promises, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.tidy.source import ROOT

PLAY = [sys.executable, "-m", "demo"]
SECONDS_MAX = 60


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"}


def test_the_demo_plays_to_its_end_and_cleans_up(tmp_path: Path) -> None:
    done = subprocess.run(
        PLAY, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    acts = re.split(r"\n\n(?=\d\. )", done.stdout)
    assert [act.partition(".")[0] for act in acts[1:]] == ["1", "2", "3", "4", "5", "6", "7"]
    _, _, ada, bruno, correction, mistakes, crash, back = acts
    assert "'similarity'" in ada
    assert "14 days" in ada
    assert bruno.count("← {'role'") == 3
    assert "← '7731'" in bruno
    assert "within 30 days" in correction
    assert "within 14 days" not in correction.replace("30 days, not 14", "")
    assert re.findall(r"✗ (\w+)", mistakes) == [
        *("ResponseError", "SessionNotFound", "DimensionMismatch", "VersionMismatch"),
    ]
    assert "✗" not in done.stdout.replace(mistakes, "").partition("1. What")[2]
    assert crash.count("← {'role'") == 3
    assert "records in" in crash
    assert crash.endswith("('bruno', 'code')\n  ← -2")
    assert re.search(r"amem_conv_drop\('ada'\)\n  ← True\n.*\n  ← None\n$", back)
    assert "\x1b" not in done.stdout


def test_a_demo_that_is_stopped_takes_its_server_along(tmp_path: Path) -> None:
    with subprocess.Popen(PLAY, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        first = next(line for line in demo.stdout if line.startswith("A server runs"))
        demo.send_signal(signal.SIGTERM)
        demo.stdout.read()
        assert demo.wait(timeout=SECONDS_MAX) == 128 + signal.SIGTERM
    assert "on port" in first
    assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + SECONDS_MAX
    while _served_from(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _served_from(tmp_path) == []


def _served_from(folder: Path) -> list[str]:
    """Processes that were told to keep their data in `folder`."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words and b"serve" in words:
                found.append(process.name)
    return found
