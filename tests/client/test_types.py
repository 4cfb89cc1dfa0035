"""Type checkers accept right uses of the client and refuse wrong ones, line by line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mypy.api
import pytest

ROOT = Path(__file__).parents[2]
RIGHT = Path(__file__).parent / "typing" / "right.py"
WRONG = Path(__file__).parent / "typing" / "wrong.py"
PYRIGHT = (
    shutil.which("basedpyright", path=str(Path(sys.executable).parent))
    or shutil.which("basedpyright")
    or shutil.which("pyright")
)

REFUSED = {
    number for number, line in enumerate(WRONG.read_text(encoding="utf-8").splitlines(), 1) if "  # refused" in line
}

Complaints = dict[tuple[str, int], str]


@pytest.fixture(scope="module")
def of_mypy(tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    cache = tmp_path_factory.mktemp("mypy")
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache), "--no-error-summary"]
    output, trouble, _ = mypy.api.run([*options, "--hide-error-context", "--no-pretty", str(RIGHT), str(WRONG)])
    assert trouble == ""
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", output, re.MULTILINE)
    return {(Path(name).name, int(line)): message for name, line, message in found}


@pytest.fixture(scope="module")
def of_pyright(tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    if PYRIGHT is None:
        pytest.skip("neither basedpyright nor pyright is installed")
    project = tmp_path_factory.mktemp("pyright") / "pyrightconfig.json"
    project.write_text(
        json.dumps(
            {
                "typeCheckingMode": "standard",
                "pythonVersion": "3.11",
                "include": [str(RIGHT), str(WRONG)],
                "extraPaths": [str(ROOT)],
            }
        )
    )
    command = [PYRIGHT, "--project", str(project), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return {
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1): found["message"]
        for found in json.loads(done.stdout)["generalDiagnostics"]
        if found["severity"] == "error"
    }


@pytest.fixture(params=["of_mypy", "of_pyright"])
def complaints(request: pytest.FixtureRequest) -> Complaints:
    found: Complaints = request.getfixturevalue(request.param)
    return found


def test_right_uses_are_accepted(complaints: Complaints) -> None:
    assert {place: message for place, message in complaints.items() if place[0] == RIGHT.name} == {}


def test_each_wrong_use_is_refused_and_nothing_else(complaints: Complaints) -> None:
    assert len(REFUSED) > 25
    assert {line for name, line in complaints if name == WRONG.name} == REFUSED


def test_the_types_are_shipped() -> None:
    import amemdb

    assert Path(amemdb.__file__).with_name("py.typed").is_file()
