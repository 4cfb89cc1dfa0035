"""A scan that asks for more names a page than one reply may hold gets pages that fit, in every family alike.

Only SCAN itself was held to that; the scans of the AMEM families refused the page instead.
"""

from __future__ import annotations

import pytest
from checks import run, scanned
from rig import Rig

from amemdb.commands import scanning
from amemdb.limits import INT64_MAX
from amemdb.protocol import reply


@pytest.mark.parametrize(
    ("scan", "make"),
    [
        ("SCAN", "SET {} x"),
        ("AMEM.CONV.SCAN", "AMEM.CONV.CREATE {}"),
        ("AMEM.SEM.SCAN", "AMEM.SEM.CREATE {} 2"),
        ("AMEM.EPIS.SCAN", "AMEM.EPIS.LOG {} type text"),
        ("AMEM.SUMMARY.SCAN", "AMEM.SUMMARY.SET {} text"),
    ],
)
def test_a_page_fits_a_reply_whatever_count_says(monkeypatch: pytest.MonkeyPatch, scan: str, make: str) -> None:
    rig = Rig()
    everyone = [b"name-%d" % number for number in range(50)]
    for name in everyone:
        run(rig, make.format(name.decode()))
    for module in (reply, scanning):
        monkeypatch.setattr(module, "REPLY_ELEMENTS_MAX", 8)
    for count in (9, 50, INT64_MAX):
        assert len(run(rig, f"{scan} 0 COUNT {count}")[1]) <= 8
        assert sorted(scanned(rig, scan, b"COUNT", b"%d" % count)) == sorted(everyone)
