"""`amemdb dump`: every record is there, complete in JSON, up to the damage, and as far as was asked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis

from amemdb.cli.record_lines import KIND_NAMES, as_json, as_text
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import KNOWN_KINDS, pack_frame
from amemdb.stores import records
from tests.cli.folders import FRAMES, T, amemdb, changes, full, manifest_of, with_base
from tests.process import ServerProcess


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full(tmp_path_factory.mktemp("dump") / "data")


def dumped(folder: Path, *options: str) -> list[dict[str, Any]]:
    done = amemdb("dump", folder, "--json", *options)
    assert (done.code, done.err) == (0, "")
    return [json.loads(line) for line in done.out.splitlines()]


def record_of(line: dict[str, Any]) -> list[Any]:
    """The record again, from its line."""
    kind = next(kind for kind, name in KIND_NAMES.items() if name == line["kind"])
    values = [value.encode() if isinstance(value, str) else value for value in line["fields"].values()]
    return [kind, *values]


def test_every_record_is_there(folder):
    lines = dumped(folder)
    expected = []
    offset = 0
    for number in range(FRAMES):
        for place, record in enumerate(changes(number)):
            expected.append((offset, place, T + number, [*record]))
        offset += len(pack_frame(T + number, *changes(number)))
    told = [(line["offset"], line["record"], line["time_ms"], record_of(line)) for line in lines]
    for one, other in zip(told, expected, strict=True):
        if one[3][0] == records.FACT_STORED:
            assert isinstance(one[3][5], list)
            one[3][5] = other[3][5]
        assert one == other
    assert not any(line["base"] for line in lines)
    assert lines[0]["time"] == "2023-11-14T22:13:20.000Z"


def test_the_table_of_fields_is_that_of_the_charter():
    assert set(records.FIELDS) == set(KNOWN_KINDS)
    lines = {}
    for line in (records.__doc__ or "").splitlines():
        words = line.split(None, 2)
        if line[:1].isdigit() or (line.startswith(" " * 30) and lines):
            if line[:1].isdigit():
                kind = int(words[0])
                assert KIND_NAMES[kind] == words[1]
                lines[kind] = words[2]
            else:
                lines[kind] += " " + line.strip()
    assert set(lines) == set(records.FIELDS)
    for kind, names in records.FIELDS.items():
        text = lines[kind]
        places = [re.search(rf"\b{name}\b", text).start() for name in names]
        assert places == sorted(places)
        assert text.count(",") >= len(names) - 1


def test_text_is_for_people(folder):
    done = amemdb("dump", folder)
    lines = done.out.splitlines()
    assert len(lines) == sum(len(changes(number)) for number in range(FRAMES))
    assert lines[0].split() == [
        *("0", "2023-11-14T22:13:20.000Z", "CONVERSATION_SET", 'session="n-0"', "window=100", "expire_at_ms=never"),
        *("created_at_ms=2023-11-14T22:13:20.000Z", "seq=0"),
    ]
    assert lines[1].split()[:2] == ["+", "2023-11-14T22:13:20.000Z"]
    assert 'content="turn 0"' in lines[1]
    assert "meta" not in lines[1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\x1b[31m\xff\n", '"\\x1b[31m\\xff\\n"'),
        (b"x" * 60, '"' + "x" * 60 + '"'),
        (b"x" * 61, '"' + "x" * 60 + '"… (61 bytes)'),
        (b"x" * 59 + "é".encode() + b"z", '"' + "x" * 59 + '"… (62 bytes)'),
        (b"x" * 57 + "🙂".encode() + b"zz", '"' + "x" * 57 + '"… (63 bytes)'),
        (b"\x80" * 70, '"' + "\\x80" * 57 + '"… (70 bytes)'),
    ],
)
def test_contents_are_shortened_and_harmless(value, shown):
    line = as_text(1234, T, 0, False, (records.KEY_SET, 0, b"k", value, 0)).decode()
    assert f" value={shown} expire_at_ms=never\n" in line
    assert line.startswith("         1,234  2023-11-14T22:13:20.000Z  KEY_SET ")


def fact(vector: bytes) -> tuple[Any, ...]:
    return (records.FACT_STORED, b"a", b"k", 0, b"c", vector, 0, None, 1, None, T)


def test_vectors_are_numbers():
    vector = bytes.fromhex("cdcccc3d000000c00000803fdb0f4940")
    line = json.loads(as_json(0, T, 0, True, fact(vector)))
    assert line["fields"]["vector"] == [0.1, -2.0, 1.0, 3.1415927]
    assert line["base"] is True
    assert "vector=[0.1, -2.0, 1.0, … 4 numbers]" in as_text(0, T, 0, True, fact(vector)).decode()
    assert as_text(0, T, 0, True, fact(vector)).split()[0] == b"base"
    for odd in (b"123", bytes.fromhex("0000807f")):
        assert set(json.loads(as_json(0, T, 0, False, fact(odd)))["fields"]["vector"]) == {"base64"}


def test_bytes_that_are_no_text_are_base64():
    line = json.loads(as_json(0, T, 0, False, (records.KEY_SET, 0, b"\xff\xfe", "é".encode(), 0)))
    assert line["fields"] == {"db": 0, "key": {"base64": "//4="}, "value": "é", "expire_at_ms": 0}


def test_times_that_are_no_dates_and_fields_of_a_newer_version():
    line = as_text(0, 2**62, 0, False, (records.KEY_DELETED, 0, b"k", 7)).decode()
    assert f"{2**62}  KEY_DELETED" in line
    assert line.endswith(' key="k" field_3=7\n')


# -- what is chosen ----------------------------------------------------------------------------------


def test_stores_and_names(folder):
    notes = dumped(folder, "--store", "notes")
    assert {line["kind"] for line in notes} == {"NOTE_SET"}
    both = dumped(folder, "--store", "turns", "--store", "keys")
    assert {line["kind"] for line in both} == {"TURN_APPENDED", "KEY_SET"}
    named = dumped(folder, "--name", "n-[12]")
    assert {next(iter(line["fields"].values()), None) for line in named if line["kind"] != "KEY_SET"} == {"n-1", "n-2"}
    assert {line["fields"]["key"] for line in named if line["kind"] == "KEY_SET"} == {"n-1", "n-2"}
    assert len(named) == 2 * sum(len(changes(number)) for number in range(6))


def test_from_and_to(folder):
    everything = dumped(folder)
    middle, later = everything[20]["offset"], everything[50]["offset"]
    expected = [line for line in everything if middle <= line["offset"] < later]
    assert dumped(folder, "--from", str(middle), "--to", str(later)) == expected
    first, last = "2023-11-14T22:13:20.010Z", "2023-11-14T23:13:20.020+01:00"
    assert [line["time_ms"] - T for line in dumped(folder, "--from", first, "--to", last) if not line["record"]] == [
        *range(10, 20)
    ]
    assert dumped(folder, "--to", "2023-11-14") == []
    assert dumped(folder, "--from", "2023-11-14") == everything


def test_a_base_comes_first(tmp_path):
    folder = with_base(tmp_path / "data")
    base = manifest_of(folder).base
    assert base is not None
    lines = dumped(folder)
    of_base = [line for line in lines if line["base"]]
    assert lines[: len(of_base)] == of_base
    assert {(line["offset"], line["time_ms"]) for line in of_base} == {(base.offset, base.time_ms)}
    assert lines[len(of_base)]["offset"] == base.offset
    assert dumped(folder, "--from", str(base.offset + 1)) == [line for line in lines if line["offset"] > base.offset]
    assert dumped(folder, "--to", str(base.offset)) == []


# -- damaged, in use, or nothing at all --------------------------------------------------------------


@pytest.mark.parametrize("damage", ["torn", "corrupt", "manifest", "missing"])
def test_up_to_the_damage(tmp_path, damage):
    folder = full(tmp_path / "data")
    name = manifest_of(folder).segments[3].name
    match damage:
        case "torn":
            name = manifest_of(folder).segments[-1].name
            with (folder / name).open("ab") as file:
                file.write(b"torn")
        case "corrupt":
            data = bytearray((folder / name).read_bytes())
            data[110] ^= 1
            (folder / name).write_bytes(data)
        case "missing":
            (folder / name).unlink()
        case "manifest":
            (folder / manifests.NAME).write_bytes(b"x")
    done = amemdb("dump", folder, "--json")
    assert done.code == (1 if damage == "torn" else 2)
    assert done.err.count("\n") == 1
    assert ("read by the headers" if damage == "manifest" else f"of {name}: ") in done.err
    count = len({json.loads(line)["offset"] for line in done.out.splitlines()})
    assert count == FRAMES if damage in ("torn", "manifest") else 15 < count < FRAMES


def test_nothing_to_show(tmp_path):
    (tmp_path / "empty").mkdir()
    assert amemdb("dump", tmp_path / "empty").code == 0
    assert amemdb("dump", tmp_path / "none").err == f"amemdb: there is no folder {tmp_path / 'none'}\n"


def test_beside_a_running_server(tmp_path):
    with ServerProcess(tmp_path / "data") as server, redis.Redis(port=server.port) as client:
        for number in range(3):
            client.set(f"k{number}", "v")
        assert [line["fields"]["key"] for line in dumped(tmp_path / "data")] == ["k0", "k1", "k2"]
        client.set("k3", "v")
        assert len(dumped(tmp_path / "data", "--name", "k*")) == 4


def test_a_pipe_that_is_closed_is_the_end(tmp_path):
    folder = full(tmp_path / "data", frames=2000, segment_bytes=30_000)
    command = [sys.executable, "-m", "amemdb", "dump", str(folder), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        json.loads(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


def test_what_is_packed_is_what_is_shown():
    """Every kind has a line in both forms."""
    for kind, names in records.FIELDS.items():
        record = msgpack.unpackb(msgpack.packb((kind, *([b"x"] * len(names)))), use_list=False)
        assert KIND_NAMES[kind] in as_text(0, T, 0, False, record).decode()
        assert list(json.loads(as_json(0, T, 0, False, record))["fields"]) == list(names)
