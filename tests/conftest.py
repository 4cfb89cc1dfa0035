"""What every test may ask for: how long the soak tests are to run, and which implementation is tested.

`pytest --soak 600`, or the environment variable SOAK_SECONDS, makes the tests marked `soak` go on for that long with
seeds of their own; otherwise they do a fixed, short amount of work.

`make test` runs everything on native code, and with `AMEMDB_NATIVE=0 pytest --reference` once more what has to do with
code that has a twin. Left out are tests of documents, tools and benchmarks, and those that look at both by themselves.
"""

from __future__ import annotations

import os

import pytest

from amemdb import native

ONCE = ("benchmarks", "docs", "native", "packaging", "tidy")
ONCE_WITHOUT_SERVER = ("cli", "client")
"""Folders with tests of programs that talk to a server: those that start a real one have to do with both."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        type=int,
        metavar="SECONDS",
        default=int(os.environ.get("SOAK_SECONDS", "0")),
        help="run each soak test for this long (default: SOAK_SECONDS, or 0 for the short form)",
    )

    parser.addoption("--reference", action="store_true", help="only what has to do with code that has a native twin")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--reference"):
        left_out = [item for item in items if not _reaches_twins(item)]
        items[:] = [item for item in items if _reaches_twins(item)]
        config.hook.pytest_deselected(items=left_out)


def _reaches_twins(item: pytest.Item) -> bool:
    folder = item.path.parent.relative_to(item.config.rootpath / "tests").parts[:1]
    if folder and folder[0] in ONCE_WITHOUT_SERVER:
        return hasattr(getattr(item, "module", None), "ServerProcess")
    return not folder or folder[0] not in ONCE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = "native code" if native.ENABLED else f"the plain-Python reference, as {native.MISSING}"
    terminalreporter.write_line(f"tested: {told}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: goes on for --soak SECONDS when that is given")


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> int:
    """How long a soak test is to run, in seconds; 0 for its short form."""
    seconds: int = request.config.getoption("--soak")
    return seconds
