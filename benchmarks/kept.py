"""What is kept from run to run as it takes minutes to make: vector sets of Redis, and graphs of hnswlib by itself.

It lies in `benchmarks/results/vectors`, a folder each, named by all that it depends on; who wants it made again
deletes it. Nothing of ours is kept: our graphs are made in every run. A vector set is kept as a compacted file, which
has its links, so that Redis has it as it was when it was made.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hnswlib

from benchmarks.compaction import compact
from benchmarks.facts import fill_with_facts
from benchmarks.made_up import VectorSet
from benchmarks.measure import Bench
from benchmarks.servers import data_folder, serving

FOLDER = Path(__file__).parent / "results" / "vectors"
BASE = "base"
LINKS, BUILD_WIDTH = 16, 200
"""Of graphs: the defaults of all three."""


def redis_facts(made: VectorSet, quantised: bool, bench: Bench) -> Path:
    """A folder in which `BASE` is a data folder of Redis that has these facts.

    Only compacted: Redis 8.2.3 ends with a failed assertion when it finds CAS in the log that it reads.
    """

    def make(folder: Path) -> None:
        with data_folder("redis") as place:
            with serving(bench.redis, "everysec", None, place, keep=True) as server:
                fill_with_facts(server, made, (b"CAS", b"Q8" if quantised else b"NOQUANT"))
                compact(server)
            shutil.copytree(place / "data", folder / BASE)

    name = f"redis-{bench.redis.version}-{'q8' if quantised else 'noquant'}-{_name_of(made)}"
    return _kept(name, make, bench)


def library_graph(made: VectorSet, bench: Bench) -> Any:
    """An index of hnswlib with these vectors."""

    def make(folder: Path) -> None:
        index: Any = hnswlib.Index("ip", made.dim)
        index.init_index(made.count, M=LINKS, ef_construction=BUILD_WIDTH)
        index.add_items(made.vectors, num_threads=len(os.sched_getaffinity(0)))
        index.save_index(str(folder / "graph"))

    version = importlib.metadata.version("hnswlib")
    folder = _kept(f"hnswlib-{version}-{_name_of(made)}", make, bench)
    index: Any = hnswlib.Index("ip", made.dim)
    index.load_index(str(folder / "graph"), max_elements=made.count)
    return index


def _name_of(made: VectorSet) -> str:
    return f"{made.count}x{made.dim}-{made.clusters}-{made.spread:g}"


def _kept(name: str, make: Callable[[Path], None], bench: Bench) -> Path:
    """The folder of that name, made if it is not there; one that was not finished is not taken for it."""
    target = FOLDER / name
    if not target.exists():
        bench.say(f"making {name}, which is kept for the next run")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER, prefix="unfinished-") as place:
            made = Path(place) / name
            made.mkdir()
            make(made)
            made.rename(target)
    return target
