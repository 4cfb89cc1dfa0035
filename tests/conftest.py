"""What every test may ask for: how long the soak tests are to run.

`pytest --soak 600`, or the environment variable SOAK_SECONDS, makes the tests marked `soak` go on for that long with
seeds of their own; otherwise they do a fixed, short amount of work.
"""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        type=int,
        metavar="SECONDS",
        default=int(os.environ.get("SOAK_SECONDS", "0")),
        help="run each soak test for this long (default: SOAK_SECONDS, or 0 for the short form)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: goes on for --soak SECONDS when that is given")


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> int:
    """How long a soak test is to run, in seconds; 0 for its short form."""
    seconds: int = request.config.getoption("--soak")
    return seconds
