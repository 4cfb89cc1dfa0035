"""Both implementations, in processes of their own, take the same bytes: replies, records, digests and counts agree.

A failure names its seed; `FUZZ_SEED=<seed> pytest tests/native/test_fuzz.py` plays that one again. With `--soak` the
seeds are random and go on for that long.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import SystemRandom
from typing import Any

import msgpack
import pytest

from amemdb import native
from amemdb.commands.generate_native import native_specs
from tests.native.driver import BUGS
from tests.tidy.source import ROOT

STEPS = 200
SEEDS = 16
SERVED_MIN = 200
"""So often every native command is served natively by the seeds of a short run."""
"""Of the short form: about ten seconds."""
BUG_SEEDS = 12


class Side:
    """One implementation: a process that plays seeds."""

    def __init__(self, enabled: bool, *bug: str) -> None:
        environment = {**os.environ, "AMEMDB_NATIVE": str(int(enabled)), "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.native.driver", *bug],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )
        self.enabled: bool = self.answer()["native"]

    def ask(self, *numbers: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"%b\n" % b" ".join(b"%d" % number for number in numbers))
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = int.from_bytes(self._process.stdout.read(4), "little")
        assert size, "the process has ended"
        answer: dict[str, Any] = msgpack.unpackb(self._process.stdout.read(size))
        return answer

    def close(self) -> None:
        self._process.communicate()


class Pair:
    """Two sides that are asked the same."""

    def __init__(self, left: Side, right: Side) -> None:
        self.sides = (left, right)
        self.served: Counter[str] = Counter()

    def difference(self, seed: int, steps: int = STEPS) -> str:
        """What is different when both play a seed; empty when nothing is."""
        left, right = self._both(seed, steps)
        for answer in (left, right):
            self.served.update(answer["served"])
        pairs = enumerate(zip(left["digests"], right["digests"], strict=False))
        unequal = next((index for index, (one, other) in pairs if one != other), None)
        if unequal is None:
            return str(left["failure"] or right["failure"])
        one, other = self._both(unequal)
        told = [f"at step {unequal}, {one['step'][:2000]}:"]
        for name in one:
            if one[name] != other[name]:
                told += [f"{name}:", *_around(one[name], other[name])]
        return "\n".join(told)

    def check(self, seed: int) -> None:
        difference = self.difference(seed)
        again = f"FUZZ_SEED={seed} .venv/bin/pytest tests/native/test_fuzz.py"
        assert not difference, f"seed {seed} ({again}): {difference}"

    def _both(self, *numbers: int) -> list[dict[str, Any]]:
        for side in self.sides:
            side.ask(*numbers)
        return [side.answer() for side in self.sides]

    def close(self) -> None:
        for side in self.sides:
            side.close()


def _around(one: str, other: str) -> list[str]:
    """The surroundings of the first difference."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))
    start = max(0, at - 300)
    return [f"  native    …{one[start : at + 300]}…", f"  reference …{other[start : at + 300]}…"]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if not native.ENABLED and not native.DECLINED:
        pytest.skip(native.MISSING)
    both = Pair(Side(True), Side(False))
    yield both
    both.close()


def seeds(soak_seconds: int) -> Iterator[int]:
    if "FUZZ_SEED" in os.environ:
        yield int(os.environ["FUZZ_SEED"])
        return
    yield from range(SEEDS)
    end_s = time.monotonic() + soak_seconds
    while time.monotonic() < end_s:
        yield SystemRandom().getrandbits(48)


@pytest.mark.soak
def test_both_do_the_same(pair, soak_seconds):
    assert [side.enabled for side in pair.sides] == [True, False]
    for seed in seeds(soak_seconds):
        pair.check(seed)
    if "FUZZ_SEED" not in os.environ:
        rare = [spec.name for spec in native_specs() if pair.served[spec.name] < SERVED_MIN]
        assert rare == [], "too few of them were served natively to find a fault: give each a method in `Traffic._hot`"


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_bug_on_one_side_is_found(bug):
    both = Pair(Side(False), Side(False, bug))
    try:
        assert any(both.difference(seed) for seed in range(BUG_SEEDS))
    finally:
        both.close()


def test_the_reference_agrees_with_itself():
    both = Pair(Side(False), Side(False))
    try:
        for seed in range(3):
            both.check(seed)
        assert not both.served
    finally:
        both.close()
