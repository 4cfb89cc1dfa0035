"""Graphs of large semantic memories in files, from one run of the server to the next: a cache of what the log says.

A graph of 100,000 vectors takes a minute to make and a fraction of a second to read. So an orderly stop writes those
there are (`save`) when nothing is served any more, as hnswlib holds the interpreter meanwhile; the next start reads
them (`load`) behind the log. What they do not cover is searched exactly, and made into graphs in the background.
Without files everything is, and after a crash what the files of the last orderly stop do not cover.

`graphs` names the files: msgpack, behind a magic number, a format version and a CRC. It has, for each, its name, size
and CRC, the agent, the metric and how wide its memory was searched. A file counts if it is what was written, is of that
memory's dimension and metric, and each vector that it has of a fact that is still there is, bit by bit, what the graph
would be given of that fact today. So no file can bring a wrong vector, of whatever folder, log or version it is.
Anything else is passed over with a word in the log, and the graph is made anew.

No file has the vector of a fact that was forgotten before it was written (`amemdb.index.graph_layout`). What is
forgotten later is in the log too, until a compaction: that removes these files (`remove`).

What goes wrong here costs time, never data: errors become lines in the log.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgpack
import numpy as np

from amemdb.index import graph as graphs
from amemdb.index.graph import Graph, fits, scaled
from amemdb.index.graph_layout import Layout
from amemdb.index.tiered import TieredIndex
from amemdb.stores.semantic import Namespace, SemanticStore

LIST_NAME = "graphs"
SUFFIX = ".graph"
MAGIC = b"AMEMGRPH"
VERSION = 1
_TEMPORARY_NAME = "graphs.tmp"
_FILE_MODE = 0o600
_CHUNK_BYTES = 1 << 20
_CHUNK_ROWS = 4096
_HEAD_BYTES = len(MAGIC) + 2 + 4

Report = Callable[[str, str], None]
"""Takes a level (`notice`, `warning`) and a line for the log."""


class Entry(NamedTuple):
    """One graph in the list."""

    name: str
    size: int
    crc: int
    agent: bytes
    metric: bytes
    search_width: int


class Done(NamedTuple):
    """What was saved or loaded."""

    graphs: int
    vectors: int


# -- saving ------------------------------------------------------------------------------------------


def save(folder: str, store: SemanticStore, is_late: Callable[[], bool], report: Report) -> Done:
    """Write all graphs of `store` to `folder` in place of those that are there, the smallest memories first.

    None is begun any more when it `is_late`. Raises nothing.
    """
    run = secrets.token_hex(4)
    entries: list[Entry] = []
    vectors = 0
    try:
        for namespace in sorted(store.namespaces.values(), key=len):
            for graph in namespace.index.graphs:
                if is_late():
                    report("notice", "not all graphs were saved, there was no time: the next start makes them anew")
                    break
                name = f"{run}-{len(entries)}{SUFFIX}"
                entries.append(_saved(folder, name, namespace, graph))
                vectors += len(graph)
        _commit(folder, entries)
    except OSError as error:
        report("warning", f"graphs could not be saved, the next start makes them anew: {error}")
        entries = []
    _remove_others(folder, {entry.name for entry in entries} | ({LIST_NAME} if entries else set()))
    return Done(len(entries), vectors if entries else 0)


def _saved(folder: str, name: str, namespace: Namespace, graph: Graph) -> Entry:
    path = os.path.join(folder, name)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        graph.save(path)
        if graph.gone:
            content = np.memmap(path, np.uint8, "r+")
            Layout(content, namespace.dim).without_marked()
            content.flush()
        os.fsync(descriptor)
        return Entry(
            name,
            os.fstat(descriptor).st_size,
            _crc_of(path),
            namespace.agent,
            namespace.metric,
            namespace.index.search_width,
        )
    finally:
        os.close(descriptor)


def _commit(folder: str, entries: list[Entry]) -> None:
    """Have the list name these files, and no others."""
    if not entries:
        return
    payload = msgpack.packb([list(entry) for entry in entries])
    head = MAGIC + VERSION.to_bytes(2, "little") + zlib.crc32(payload).to_bytes(4, "little")
    path = os.path.join(folder, _TEMPORARY_NAME)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(head + payload)
        file.flush()
        os.fsync(descriptor)
    os.replace(path, os.path.join(folder, LIST_NAME))


# -- loading -----------------------------------------------------------------------------------------


def load(folder: str, store: SemanticStore, report: Report) -> Done:
    """Have the memories of `store` search the graphs in `folder` that are of them. Raises nothing."""
    entries = _listed(folder, report)
    _remove_others(folder, {LIST_NAME} | {entry.name for entry in entries})
    if not graphs.IS_AVAILABLE:
        return Done(0, 0)
    by_agent: dict[bytes, list[Entry]] = {}
    for entry in entries:
        by_agent.setdefault(entry.agent, []).append(entry)
    count = vectors = 0
    for agent, listed in by_agent.items():
        namespace = store.namespaces.get(agent)
        if namespace is None or not namespace.index.is_large:
            continue
        kept: list[Graph] = []
        for entry in listed:
            try:
                kept.append(_loaded(os.path.join(folder, entry.name), entry, namespace))
            except (OSError, ValueError) as error:
                report("warning", f"the graph in {os.path.join(folder, entry.name)} is made anew: {error}")
        if not kept:
            continue
        is_of_use = store.tend(namespace, partial(_adopt, kept, listed[0].search_width))
        if is_of_use:
            count += len(kept)
            vectors += sum(map(len, kept))
    return Done(count, vectors)


def _adopt(kept: list[Graph], search_width: int, index: TieredIndex) -> bool:
    return index.adopt(kept, search_width)


def _listed(folder: str, report: Report) -> list[Entry]:
    path = os.path.join(folder, LIST_NAME)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        report("warning", f"{path} cannot be read, graphs are made anew: {error.strerror}")
        return []
    head, payload = content[:_HEAD_BYTES], content[_HEAD_BYTES:]
    crc = zlib.crc32(payload).to_bytes(4, "little")
    if head != MAGIC + VERSION.to_bytes(2, "little") + crc:
        report("warning", f"{path} is damaged or of another version, graphs are made anew")
        return []
    entries: list[Any] = msgpack.unpackb(payload)
    return [Entry(*entry) for entry in entries]


def _loaded(path: str, entry: Entry, namespace: Namespace) -> Graph:
    """The graph in a file, if it is what it should be; `ValueError` says why not."""
    if entry.metric != namespace.metric:
        raise ValueError("the memory has another metric now")
    if os.path.getsize(path) != entry.size or _crc_of(path) != entry.crc:
        raise ValueError("the file is not what was written")
    layout = Layout(np.memmap(path, np.uint8, "r"), namespace.dim)
    if layout.links != namespace.index.links:
        raise ValueError("the memory asks for other links now")
    _compare(layout, namespace)
    return Graph.loaded(path, namespace.metric, layout, namespace.index.ids())


def _compare(layout: Layout, namespace: Namespace) -> None:
    """`ValueError` unless the vectors are those of the facts that are still there."""
    exact = namespace.index.exact
    labels, marked = layout.labels(), layout.marked()
    living = ~marked & np.isin(labels, exact.ids())
    for first in range(0, layout.count, _CHUNK_ROWS):
        chosen = living[first : first + _CHUNK_ROWS]
        ids = labels[first : first + _CHUNK_ROWS][chosen].tolist()
        norms = np.sqrt(exact.squares_of(ids))
        if not fits(norms, namespace.metric).all():
            raise ValueError("it holds other vectors than the memory")
        expected = scaled(exact.vectors(ids), namespace.metric)
        if not np.array_equal(expected, layout.vectors(first, first + _CHUNK_ROWS)[chosen]):
            raise ValueError("it holds other vectors than the memory")


# -- both --------------------------------------------------------------------------------------------


def remove(folder: str) -> None:
    """Remove the files and their list. Raises `OSError`."""
    _remove_others(folder, set(), strict=True)


def _remove_others(folder: str, kept: set[str], strict: bool = False) -> None:
    with contextlib.nullcontext() if strict else contextlib.suppress(OSError):
        names = os.listdir(folder)
        # The list first: what it names is there.
        for name in sorted(names, key=lambda name: name != LIST_NAME):
            is_ours = name in (LIST_NAME, _TEMPORARY_NAME) or name.endswith(SUFFIX)
            if is_ours and name not in kept:
                os.unlink(os.path.join(folder, name))


def _crc_of(path: str) -> int:
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc
