"""What is measured: one entry a row. The targets are ours divided by Redis.

Names are spread over enough sessions that no window or listpack is the special case, and contents are 120 bytes
everywhere (see `templates` for the braces). Where Redis has one string and we have a role and a content, Redis gets
both, joined by `|`.
"""

from __future__ import annotations

from benchmarks.compaction import CompactionRow, CompactorRow
from benchmarks.made_up import VectorSet
from benchmarks.measure import PER_OWNER, Fill, LoadRow, MemoryRow, Row, Side, Target
from benchmarks.paced import Flood, StallRow, Steps, TailRow
from benchmarks.recall import LIBRARY, RECALL_RATE, RecallRow, RecallTailRow
from benchmarks.restart import RestartRow
from benchmarks.servers import REDIS

PLAIN = Target(0.9, 1.0)
PIPELINED_WRITE = Target(1.2, 1.6)
PIPELINED_READ = Target(0.8, 1.1)
READ = {1: PLAIN, 16: PIPELINED_READ}
WRITE = {1: PLAIN, 16: PIPELINED_WRITE}
ALWAYS = {1: Target(0.9, 1.2)}
MEMORY = Target(1.5, 1.1)
"""Of memory, less is better: at most the floor, at best the goal."""
STALL = Target(5.0, 2.0)
"""Milliseconds that the p99.9 of PING may take at most, and at best."""
RESTART = Target(1.0, 3.0)
COMPACTION = Target(2.0, 2.0)
"""By how much a compaction may raise the p99 of others."""
COMPACTOR = Target(1.0, 1.0)
"""Of the memory that the process may have."""
RECALL_TO_REDIS = Target(2.0, 2.7)
RECALL_TO_LIBRARY = Target(0.6, 0.8)
RECALL_TAIL = Target(3.0, 1.5)
"""By how much stores may raise the p99 of searches."""

KEYS = "key:{any%10000}"
SESSION = "s:{any%10000}"
SESSIONS = Fill(10_000, "AMEM.CONV.CREATE s:{seq}")

TURNS = Fill(40_000, "AMEM.CONV.APPEND s:{seq%2000} user {text}")
TURNS_IN_LIST = Fill(40_000, "RPUSH s:{seq%2000} user|{text}")

NOTE_SESSIONS = Fill(2_000, "AMEM.CONV.CREATE s:{seq}")
NOTES = Fill(20_000, "AMEM.WORK.SET s:{seq%2000} k:{seq/2000} {text}")
NOTES_IN_HASH = Fill(20_000, "HSET s:{seq%2000} k:{seq/2000} {text}")
TURNS_BIG = 25_000
TURNS_LONG = 100_000
"""In a session that is dropped."""

NOTE = "s:{any%2000} k:{any/2000%10}"

OWNER = f"{{seq/{PER_OWNER}}}"

QUARTER = 250_000
OF_ALL_KINDS = (
    Fill(QUARTER // PER_OWNER, "AMEM.CONV.CREATE s:{seq}"),
    Fill(QUARTER, f"AMEM.CONV.APPEND s:{OWNER} user {{text}}"),
    Fill(QUARTER, f"AMEM.WORK.SET s:{OWNER} k:{{seq%{PER_OWNER}}} {{text}}"),
    Fill(QUARTER, f"AMEM.EPIS.LOG a:{OWNER} action {{text}}"),
    Fill(QUARTER, "SET key:{seq} {text}"),
)
OF_ALL_KINDS_IN_REDIS = (
    Fill(QUARTER, f"RPUSH s:{OWNER} user|{{text}}"),
    Fill(QUARTER, f"HSET n:{OWNER} k:{{seq%{PER_OWNER}}} {{text}}"),
    Fill(QUARTER, f"XADD a:{OWNER} * action {{text}}"),
    Fill(QUARTER, "SET key:{seq} {text}"),
)
RESTART_NOTE = f"a quarter each of turns, notes, events and strings, {PER_OWNER} a session or agent"
SMALL_VECTORS, LARGE_VECTORS = VectorSet(100_000, 384), VectorSet(100_000, 768)
FACTS_NOTE = f"{RESTART_NOTE}; and for ten of them a fact of 384 numbers, in Redis by VADD as it comes, with its text"
VECTORS_BEFORE = 16_000
"""Beyond what is searched without a graph."""
BIG_COUNT = 50_000
"""Turns of the largest session."""

ROWS: list[Row] = [
    LoadRow(
        "get",
        Side("GET", f"GET {KEYS}", (Fill(10_000, "SET key:{seq} {text}"),)),
        Side("GET", f"GET {KEYS}", (Fill(10_000, "SET key:{seq} {text}"),)),
        READ,
        answer_bytes=120,
    ),
    LoadRow("set", Side("SET", f"SET {KEYS} {{text}}"), Side("SET", f"SET {KEYS} {{text}}"), WRITE),
    LoadRow(
        "append",
        Side("CONV.APPEND", f"AMEM.CONV.APPEND {SESSION} user {{text}}", (SESSIONS,)),
        Side("RPUSH", f"RPUSH {SESSION} user|{{text}}"),
        WRITE,
    ),
    LoadRow(
        "window",
        Side("CONV.WINDOW 10", "AMEM.CONV.WINDOW s:{any%2000} 10", (NOTE_SESSIONS, TURNS)),
        Side("LRANGE -10 -1", "LRANGE s:{any%2000} -10 -1", (TURNS_IN_LIST,)),
        READ,
        answer_bytes=10 * 120,
    ),
    LoadRow(
        "workset",
        Side("WORK.SET", f"AMEM.WORK.SET {NOTE} {{text}}", (NOTE_SESSIONS, NOTES)),
        Side("HSET", f"HSET {NOTE} {{text}}", (NOTES_IN_HASH,)),
        WRITE,
    ),
    LoadRow(
        "workget",
        Side("WORK.GET", f"AMEM.WORK.GET {NOTE}", (NOTE_SESSIONS, NOTES)),
        Side("HGET", f"HGET {NOTE}", (NOTES_IN_HASH,)),
        READ,
        answer_bytes=120,
    ),
    LoadRow(
        "epislog",
        Side("EPIS.LOG", "AMEM.EPIS.LOG a:{any%10000} action {text}"),
        Side("XADD", "XADD a:{any%10000} * action {text}"),
        WRITE,
    ),
    LoadRow(
        "appendtrim",
        Side(
            "CONV.APPEND, window full",
            "AMEM.CONV.APPEND s:{any%2000} user {text}",
            (Fill(2_000, "AMEM.CONV.CREATE s:{seq} WINDOW 20"), TURNS),
        ),
        Side(
            "RPUSH + LTRIM",
            "RPUSH s:{any%2000} user|{text} ; LTRIM s:{any%2000} -20 -1",
            (TURNS_IN_LIST,),
        ),
        {1: Target(1.0, 1.4), 16: Target(1.5, 2.5)},
        note="an operation is one command of ours and two of Redis, sent in one write",
    ),
    LoadRow(
        "setalways",
        Side("SET, fsync always", f"SET {KEYS} {{text}}"),
        Side("SET, fsync always", f"SET {KEYS} {{text}}"),
        ALWAYS,
        fsync="always",
    ),
    LoadRow(
        "appendalways",
        Side("CONV.APPEND, fsync always", f"AMEM.CONV.APPEND {SESSION} user {{text}}", (SESSIONS,)),
        Side("RPUSH, fsync always", f"RPUSH {SESSION} user|{{text}}"),
        ALWAYS,
        fsync="always",
    ),
    TailRow("tailset", Side("SET", f"SET {KEYS} {{text}}"), Side("SET", f"SET {KEYS} {{text}}"), 5_000),
    TailRow(
        "tailappend",
        Side("CONV.APPEND", f"AMEM.CONV.APPEND {SESSION} user {{text}}", (SESSIONS,)),
        Side("RPUSH", f"RPUSH {SESSION} user|{{text}}"),
        5_000,
    ),
    TailRow(
        "tailbig",
        Side("SET of 10 kB", "SET key:{any%5000} {text:10000}"),
        Side("SET of 10 kB", "SET key:{any%5000} {text:10000}"),
        2_000,
        note="20 MB/s, so that forcing the log to disk takes its time",
    ),
    TailRow(
        "tailsetalways",
        Side("SET, fsync always", f"SET {KEYS} {{text}}"),
        Side("SET, fsync always", f"SET {KEYS} {{text}}"),
        2_000,
        fsync="always",
    ),
    TailRow(
        "tailappendalways",
        Side("CONV.APPEND, fsync always", f"AMEM.CONV.APPEND {SESSION} user {{text}}", (SESSIONS,)),
        Side("RPUSH, fsync always", f"RPUSH {SESSION} user|{{text}}"),
        2_000,
        fsync="always",
    ),
    StallRow("stallidle", Side("nothing", ""), Side("nothing", ""), None, STALL),
    StallRow(
        "stallreply",
        Side(
            "CONV.GET of 50 MB",
            "AMEM.CONV.GET s:00000000",
            (
                Fill(1, f"AMEM.CONV.CREATE s:{{seq}} WINDOW {TURNS_BIG}"),
                Fill(TURNS_BIG, "AMEM.CONV.APPEND s:00000000 user {text:2000}"),
            ),
        ),
        Side("LRANGE 0 -1 of 50 MB", "LRANGE s:00000000 0 -1", (Fill(TURNS_BIG, "RPUSH s:00000000 user|{text:2000}"),)),
        Flood(1, 1, answer_bytes=50_000_000),
        STALL,
        note=f"{TURNS_BIG:,} turns of 2,000 bytes, asked for again and again on one connection",
    ),
    StallRow(
        "stalldrop",
        Side(
            "CONV.DROP of 100,000 turns",
            "AMEM.CONV.DROP s:{seq}",
            (
                Fill(1, f"AMEM.CONV.CREATE s:{{seq}} WINDOW {TURNS_LONG}"),
                Fill(TURNS_LONG, f"AMEM.CONV.APPEND s:{{seq/{TURNS_LONG}}} user {{text}}"),
            ),
        ),
        Side(
            "DEL of 100,000 elements", "DEL s:{seq}", (Fill(TURNS_LONG, f"RPUSH s:{{seq/{TURNS_LONG}}} user|{{text}}"),)
        ),
        Steps(0.5),
        STALL,
        note="a session every half second; all are filled before, which is not measured",
    ),
    StallRow(
        "stallvectors",
        Side(
            "SEM.STORE of 1,536 numbers",
            "AMEM.SEM.STORE a f:{any} {text} {vector:1536}",
            (Fill(1, "AMEM.SEM.CREATE a 1536"),),
        ),
        Side("VADD of 1,536 numbers", "VADD v VALUES 1536 {vector:1536} f:{any}"),
        Flood(4, 16, stores=True),
        STALL,
        note="decimal text at full speed, 4 connections, 16 in one write of each",
    ),
    StallRow(
        "stallgraphs",
        Side(
            "SEM.STORE of 384 numbers as FP32",
            "AMEM.SEM.STORE a f:{any} {text} FP32 {fp32:384}",
            (
                Fill(1, "AMEM.SEM.CREATE a 384"),
                Fill(VECTORS_BEFORE, "AMEM.SEM.STORE a g:{seq} {text} FP32 {fp32:384}"),
            ),
        ),
        Side("VADD of 384 numbers as FP32", "VADD v FP32 {fp32:384} f:{any}"),
        Flood(4, 16, stores=True),
        STALL,
        note=f"at full speed, 4 connections, 16 in one write of each; {VECTORS_BEFORE:,} are there before, so that our "
        "graphs are made meanwhile",
    ),
    MemoryRow(
        "memturn",
        Side("a turn", f"AMEM.CONV.APPEND s:{OWNER} user {{text}}"),
        Side("an element of a list", f"RPUSH s:{OWNER} user|{{text}}"),
        MEMORY,
        owner="AMEM.CONV.CREATE s:{seq}",
    ),
    MemoryRow(
        "memnote",
        Side("a note", f"AMEM.WORK.SET s:{OWNER} k:{{seq%{PER_OWNER}}} {{text}}"),
        Side("a field of a hash", f"HSET s:{OWNER} k:{{seq%{PER_OWNER}}} {{text}}"),
        MEMORY,
        owner="AMEM.CONV.CREATE s:{seq}",
    ),
    MemoryRow(
        "memevent",
        Side("an event", f"AMEM.EPIS.LOG a:{OWNER} action {{text}}"),
        Side("an entry of a stream", f"XADD a:{OWNER} * action {{text}}"),
        MEMORY,
    ),
    RestartRow(
        "restartlog",
        Side("from its log", "", OF_ALL_KINDS),
        Side("from its AOF, as written", "", OF_ALL_KINDS_IN_REDIS),
        RESTART,
        note=RESTART_NOTE,
    ),
    RestartRow(
        "restartbase",
        Side("compacted before", "", OF_ALL_KINDS),
        Side("AOF rewritten as commands", "", OF_ALL_KINDS_IN_REDIS),
        RESTART,
        compacted=True,
        note=RESTART_NOTE,
    ),
    RestartRow(
        "restartrdb",
        Side("compacted before", "", OF_ALL_KINDS),
        Side("AOF rewritten as a snapshot", "", OF_ALL_KINDS_IN_REDIS),
        None,
        compacted=True,
        preamble=True,
        note=RESTART_NOTE,
    ),
    RestartRow(
        "restartfacts",
        Side("with facts, from its log", "", OF_ALL_KINDS),
        Side("with facts, from its AOF as written", "", OF_ALL_KINDS_IN_REDIS),
        RESTART,
        facts=SMALL_VECTORS,
        rounds_max=1,
        note=FACTS_NOTE,
    ),
    RestartRow(
        "restartfactsbase",
        Side("with facts, compacted before", "", OF_ALL_KINDS),
        Side("with facts, AOF rewritten as a snapshot", "", OF_ALL_KINDS_IN_REDIS),
        None,
        compacted=True,
        preamble=True,
        facts=SMALL_VECTORS,
        note=FACTS_NOTE,
    ),
    CompactionRow(
        "compactset",
        Side("SET", f"SET key:{{any%{QUARTER}}} {{text}}", (Fill(QUARTER, "SET key:{seq} {text}"),)),
        Side("SET", f"SET key:{{any%{QUARTER}}} {{text}}", (Fill(QUARTER, "SET key:{seq} {text}"),)),
        COMPACTION,
        note=f"{QUARTER:,} keys, one compaction after the other",
    ),
    CompactorRow(
        "compactor",
        Side(
            "turns and strings",
            "",
            (
                Fill(1, f"AMEM.CONV.CREATE s:{{seq}} WINDOW {BIG_COUNT}"),
                Fill(BIG_COUNT, "AMEM.CONV.APPEND s:00000000 user {text:500}"),
                Fill(QUARTER // PER_OWNER, "AMEM.CONV.CREATE t:{seq}"),
                Fill(QUARTER, f"AMEM.CONV.APPEND t:{OWNER} user {{text:500}}"),
                Fill(QUARTER, "SET key:{seq} {text:500}"),
            ),
        ),
        Side(
            "elements and strings",
            "",
            (
                Fill(BIG_COUNT, "RPUSH s user|{text:500}"),
                Fill(QUARTER, f"RPUSH t:{OWNER} user|{{text:500}}"),
                Fill(QUARTER, "SET key:{seq} {text:500}"),
            ),
        ),
        memory_mib=64,
        factor=4,
        largest="s:00000000",
        target=COMPACTOR,
        note=f"contents of 500 bytes, {BIG_COUNT:,} of them in one session; of Redis, the pages that had to be copied",
    ),
    RecallRow("recall384", SMALL_VECTORS, REDIS, RECALL_TO_REDIS),
    RecallRow("recall768", LARGE_VECTORS, REDIS, RECALL_TO_REDIS),
    RecallRow("library384", SMALL_VECTORS, LIBRARY, RECALL_TO_LIBRARY),
    RecallRow("library768", LARGE_VECTORS, LIBRARY, RECALL_TO_LIBRARY),
    RecallTailRow(
        "recallstores",
        SMALL_VECTORS,
        RECALL_TAIL,
        note=f"{RECALL_RATE} searches a second, and where facts are stored as many of these",
    ),
]
