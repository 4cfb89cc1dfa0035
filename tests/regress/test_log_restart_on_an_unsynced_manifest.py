"""A kill between putting a manifest in force and syncing the folder, a restart, and then a power cut.

The restart read the new manifest from the page cache and built on it; the power cut brought the old one back, and with
it went what had been acknowledged since. Opening a log now syncs the folder first.
"""

from __future__ import annotations

from random import Random

from tests.persistence.simulated import Driven, SimulatedDisk, Stopped


def test_what_is_written_after_the_restart_survives_a_power_cut():
    for stop_in in range(60):
        disk = SimulatedDisk(Random(stop_in))
        driven = Driven(disk, "always", segment_bytes_max=200)
        disk.stop_in = stop_in
        try:
            for number in range(5):
                driven.write(number)
                driven.run()
        except Stopped:
            pass
        disk.kill()
        again = Driven(disk, "always")
        count = len(again.numbers)
        assert again.write(count)
        again.run()
        assert again.log.released_offset == again.log.offset
        disk.power_cut()
        assert Driven(disk).numbers == list(range(count + 1))
