"""Which implementation a process runs: told where it matters, never a mixture, and in CI not one by accident."""

from __future__ import annotations

import io
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console
from rig import Rig

from amemdb import native
from amemdb.cli.environment import of_machine
from amemdb.cli.findings import of_native, of_server
from amemdb.cli.info import screen
from tests.tidy.source import PACKAGE, ROOT

WARNING = "WARNING native code is not in use: "
ASK = "from amemdb import native; print(native.ENABLED, native.MISSING)"
NOT_BUILT = "it was not built (no C compiler or Python headers at the installation?)"
BUILT_FROM = PACKAGE / "_built_from.txt"


IN_CI = os.environ.get("CI", "") not in ("", "0", "false")


def test_ci_does_not_test_the_reference_twice():
    assert native.ENABLED or native.DECLINED or not IN_CI, native.MISSING


@pytest.mark.skipif(not native.ENABLED and not native.DECLINED, reason=f"nothing to compare: {native.MISSING}")
def test_what_is_tested_is_what_lies_here():
    """Otherwise: `make test`, or `.venv/bin/python setup.py build_ext --inplace`."""
    digest = runpy.run_path(str(ROOT / "setup.py"))["digest"]
    assert BUILT_FROM.read_text(encoding="ascii").strip() == digest(), "native code was built from other sources"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package as it is here, to be damaged."""
    shutil.copytree(PACKAGE, tmp_path / "amemdb", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def asked(folder: Path, code: str = ASK, **environ: str) -> str:
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(folder, **environ), capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def environment(folder: Path, **environ: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "AMEMDB_NATIVE"}
    return {**kept, "PYTHONPATH": str(folder), **environ}


def twin(folder: Path, name: str) -> Path:
    found = list(folder.joinpath(*name.split(".")[:-1]).glob(f"{name.rpartition('.')[2]}.*.so"))
    if not found:
        pytest.skip(native.MISSING or f"{name} was not built")
    return found[0]


def test_the_reference_can_be_chosen(copy):
    assert asked(copy, AMEMDB_NATIVE="0") == "False AMEMDB_NATIVE=0 is set"


@pytest.mark.parametrize("name", [native.MODULES[0], "amemdb.engine._hot", native.MODULES[-1]])
def test_one_that_is_missing_is_none(copy, name):
    twin(copy, name).unlink()
    assert asked(copy) == f"False {NOT_BUILT}, {name} is missing"


@pytest.mark.parametrize("name", [native.MODULES[0], native.MODULES[-1]])
def test_one_that_cannot_be_loaded_is_none(copy, name):
    twin(copy, name).write_bytes(b"not what the system loads")
    told = asked(copy)
    assert told.startswith(f"False {name} cannot be loaded: ")
    assert "'amemdb.stores.conversation'" in asked(
        copy, "from amemdb.stores.conversation import Conversation; print(repr(Conversation.__module__))"
    )


def started(folder: Path, **environ: str) -> str:
    """What a server says of it when it starts."""
    code = "from amemdb.server import run; run.set_up_logging('notice'); run._tell_native()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(folder, **environ),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_server_tells_when_it_runs_without_native_code(copy):
    for built in copy.rglob("*.so"):
        built.unlink()
    told = started(copy)
    assert told.count(WARNING) == 1
    missing = f"{NOT_BUILT}, {native.MODULES[0]} is missing"
    assert f"{missing}; everything works, several times slower. Install a C compiler" in told


def test_a_server_warns_of_nothing_when_that_was_chosen(copy):
    told = started(copy, AMEMDB_NATIVE="0")
    assert "WARNING" not in told
    assert "INFO native code is not in use: AMEMDB_NATIVE=0 is set" in told


@pytest.mark.skipif(not native.ENABLED and not native.DECLINED, reason=native.MISSING)
def test_a_server_says_nothing_of_native_code_that_is_in_use(copy):
    assert started(copy) == ""


IN_USE = "yes" if native.ENABLED else "no"


def test_info_tells():
    assert f"amemdb_native:{IN_USE}\r\n".encode() in Rig()("INFO", "server")


def test_the_screen_of_info_tells():
    console = Console(width=100, file=io.StringIO())
    state = {"amemdb_version": "0.1.0", "amemdb_native": "no"}
    console.print(screen("127.0.0.1:6379", state, {}, list(of_server(state, {}))))
    shown = cast(io.StringIO, console.file).getvalue()
    assert "native code not in use" in shown
    assert "! native code: not in use there" in shown
    assert "→ the server's own log says why" in shown


@pytest.mark.parametrize(
    ("missing", "declined", "level", "said"),
    [
        ("", False, "ok", "built"),
        ("AMEMDB_NATIVE=0 is set", True, "ok", "not asked for"),
        ("it was not built", False, "warn", "not in use, it was not built: everything works, several times slower"),
    ],
)
def test_doctor_tells_of_this_machine(monkeypatch, missing, declined, level, said):
    monkeypatch.setattr(native, "MISSING", missing)
    monkeypatch.setattr(native, "ENABLED", not missing)
    monkeypatch.setattr(native, "DECLINED", declined)
    (finding,) = [finding for finding in of_machine() if finding.subject == "native code"]
    assert (finding.level, said in finding.said, bool(finding.do)) == (level, True, level == "warn")


@pytest.mark.parametrize(("told", "levels"), [("yes", ["ok"]), ("no", ["warn"]), ("", [])])
def test_doctor_tells_of_the_server(told, levels):
    assert [finding.level for finding in of_native({"amemdb_native": told})] == levels
    asking = [finding for finding in of_server({"amemdb_native": told}, {}) if finding.do]
    assert [finding.level for finding in asking] == [level for level in levels if level != "ok"]
