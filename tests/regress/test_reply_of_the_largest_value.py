"""The default output limit used to be below the largest value, so a GET of it closed the connection of any reader."""

from __future__ import annotations

from amemdb.config import Config
from amemdb.limits import REPLY_BYTES_MAX
from amemdb.server.connection import UNSENT_HIGH


def test_one_reply_fits_beside_what_may_already_wait() -> None:
    assert Config().get("output-buffer-limit") > REPLY_BYTES_MAX + UNSENT_HIGH
