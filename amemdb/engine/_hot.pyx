"""The hot path: the few commands that make up most of the traffic, from bytes to bytes without Python in between.

What is native and why
----------------------
At sixteen commands a packet the kernel takes half a microsecond of each, so a command has about as much left for
itself. Parsing, look-up, gates, the handler, its record and its reply are therefore done here in C for the commands
that are declared with the flag `native`. The other native modules (`amemdb.native.MODULES`) are twins of those beside
which they lie, with an underscore in front; this one is the heart, and has no twin but `Engine.execute` itself.

The reference decides
---------------------
This is an optimisation and never a second meaning. The Python handlers behind `Engine.execute` are the reference, run
alone with `AMEMDB_NATIVE=0`. Native code serves only the *plain successful shape* of a command: the smallest number
of tokens, no option, a live object of the usual form, a short reply. For everything else (options, errors, names that
have expired, watched keys, a log without room, a large answer) a handler **declines**: it returns 0, has changed
nothing, and the reference serves the request. So each error exists once. What a native handler emits is byte for byte
the record of the reference, and what it leaves in the stores has the same digest; a test feeds both with the same
bytes and compares replies, records and digests.

Making another command native
-----------------------------
1. Add the flag `native` to its declaration in `amemdb/commands/<family>.py` and run `make generate`: name, number of
   tokens, access, the tokens that are names, and what the first of them names (by the family) reach `_hot_table.pxi`.
2. Write `run_<handler>` in `_hot_handlers.pxi`: look at what it needs, decline by `return 0`, and only then change
   the store, write the reply, and `return 1`. A form of reply that is not there yet goes to `protocol/_replies.pyx`.
3. A write has more to see to; `run_set` shows all of it. Decline what is watched or has an expiry. Change the store
   through its own typed method, and add to the ledger what that took (`stores/memory.py`). Write the frame with the
   fields of the record in `stores/records.py`, whose number is `RECORD_<name>` here.
4. If the store keeps its state in Python objects that are slow to reach, give it a twin with a `.pxd`.
5. Give the command a method in `Traffic._hot` of `tests/native/traffic.py`, with its unusual arguments: the fuzzer
   must have served every native command natively some hundred times, or it fails.

One read of a connection
------------------------
`begin` takes the session's state once, `find` looks the request up, `serve` passes the gates and runs the handler.
The frames of all reads of a turn of the loop gather here and go to the log as one unit (`commit`), at the end of the
turn or before the reference runs, so that the log sees every change in its order. Offset and room of the log, the
policy and the thresholds are read once a turn, and again (`stale`) whenever the reference has run in between.
"""

from libc.stdlib cimport calloc, free
from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp, memcpy, strlen

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.mem cimport PyMem_Free
from cpython.object cimport PyObject

from amemdb.commands._session cimport Session
from amemdb.protocol._replies cimport ReplyBuffer, decimal
from amemdb.protocol._requests cimport PlainRequests, Token
from amemdb.stores._conversation cimport Chunk, Conversation, Cursor, Turn
from amemdb.stores._database cimport Database
from amemdb.stores._episodic cimport EventLog
from amemdb.stores._memory cimport Ledger, text_bytes
from amemdb.stores._packing cimport put_bytes, put_head, put_integer, put_nil
from amemdb.stores._timeline cimport Timeline
from amemdb.stores._working cimport Notes

from amemdb.commands.recall import hits_at_once
from amemdb.protocol.reply import decimal_text

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char format_code, int precision, int flags, int *kind) except NULL

ctypedef int (*Handler)(HotPath path, PlainRequests requests, ReplyBuffer out) except -1

include "_hot_records.pxi"
include "_hot_handlers.pxi"
include "_hot_table.pxi"
include "_hot_warm.pxi"

cdef enum:
    WORD_BYTES_MAX = 32
    BLOCK_SLACK_BYTES = 64  # of room, beside what the frames take
    FRAMES_BYTES_MAX = 65536  # frames of one unit: a block holds whole units


cdef class HotPath:
    """The hot path of one engine."""

    def __cinit__(self):
        self._calls = <long long *> calloc(COMMANDS, sizeof(long long))
        self._spent_ns = <long long *> calloc(COMMANDS, sizeof(long long))
        if self._calls == NULL or self._spent_ns == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._calls)
        free(self._spent_ns)

    def __init__(self, stores, log, state, timer_ns):
        self._timer_ns = timer_ns
        self._state = state
        self._log = log
        self._conv = stores.conv
        self._work = stores.work
        self._epis = stores.epis
        self._sem = stores.sem
        self._databases = stores.keys.databases
        self._watched = stores.keys.watched
        self._ahead_names = [None] * AHEAD_MAX
        self._frames = ReplyBuffer()
        self._last = -1
        self._memory = state.memory
        self._ledger = stores.ledger
        self._data_bytes_max = self._memory_offset = (<long long> 1) << 62

    def limit_memory(self, long long data_bytes_max, long long offset):
        """Leave writes to the reference while the data takes more; look at the memory again when the log is there."""
        self._data_bytes_max = data_bytes_max
        self._memory_offset = offset

    def hand_over(self):
        """The reference is about to run, or the turn is over: hand the frames to the log, and look at it anew."""
        self.commit()
        self._fresh = False

    def request(self, Session session, bytes chunk, long long now_ms):
        """The reply to the one request that `chunk` holds, or None when it has to be served by the reference."""
        cdef PlainRequests requests = PlainRequests()
        cdef ReplyBuffer out = ReplyBuffer()
        cdef int place
        requests.hold(chunk)
        self._fresh = False
        if requests.peek() <= 0 or not self.begin(session, now_ms, self._timer_ns()):
            return None
        place = self.find(requests)
        if place < 0 or not self.serve(place, requests, out):
            return None
        self.ran(place, requests, self._timer_ns())
        if self.waits(place):
            session.reply_offset = self.offset
        self.leave()
        self.commit()
        return out.take()

    def settle(self):
        """Give what was counted here to the server's statistics."""
        cdef int place
        for place in range(COMMANDS):
            if self._calls[place]:
                self._state.add_calls(COMMAND_NAMES[place], self._calls[place], self._spent_ns[place])
                self._calls[place] = 0
                self._spent_ns[place] = 0

    cdef int begin(self, Session session, long long now_ms, long long now_ns) except -1:
        """Serve `session` from now on, at `now_ms`; 0 when its state is one for the reference only."""
        if not session.is_plain():
            return 0
        self._session = session
        self.db = session.db
        self.resp3 = session.resp3
        self.now_ms = now_ms
        if not self._fresh:
            self._look_at_log()
        self._began_ns = now_ns
        self._last = -1
        self._ahead_count = 0
        self._ahead_at = -1
        return 1

    cdef int next(self, PlainRequests requests) except -3:
        """Find the request at hand: its command's place in the tables, -1 if it is not for this path, -2 if not plain.

        A pipeline is looked at some requests ahead, and what was found then is taken up here.
        """
        cdef Ahead *seen
        cdef Py_ssize_t index
        if self._ahead_at + 1 < self._ahead_count:
            self._ahead_at += 1
            seen = &self._ahead[self._ahead_at]
            if seen.at == requests.at:
                requests.end = seen.end
                requests.count = seen.count
                for index in range(min(seen.count, AHEAD_TOKENS_MAX)):
                    requests.tokens[index] = seen.tokens[index]
                return seen.place
            self._ahead_count = 0
        if requests.peek() <= 0:
            return -2
        if requests.end < requests.size and self._ahead_at + 1 == self._ahead_count:
            self._ahead_at = self._ahead_count = 0
            if look_ahead(self, requests) > 0:
                requests.peek()
                return self._ahead[0].place
        self._ahead_count = 0
        self._ahead_at = -1
        return self.find(requests)

    cdef bytes name(self, const Token *token):
        """The bytes of a token, which may have been made when it was looked at ahead."""
        if self._ahead_count and self._ahead[self._ahead_at].tokens[1].data == token.data:
            return <bytes> self._ahead_names[self._ahead_at]
        return PyBytes_FromStringAndSize(token.data, token.size)

    cdef int find(self, PlainRequests requests) noexcept:
        """The place in the tables of the command that the request found by `peek` calls; -1: not for this path."""
        cdef char word[WORD_BYTES_MAX]
        cdef Token *name = &requests.tokens[0]
        cdef Py_ssize_t index, size = name.size
        cdef unsigned int names
        cdef int place
        cdef char letter
        if size > WORD_BYTES_MAX:
            return -1
        for index in range(size):
            letter = name.data[index]
            word[index] = letter - 32 if b'a' <= letter <= b'z' else letter
        place = place_of(word, size)
        if place < 0 or requests.count != TOKENS[place]:
            return -1
        names = NAMES[place]
        index = 1
        names >>= 1
        while names:
            if names & 1 and not 0 < requests.tokens[index].size <= NAME_BYTES_MAX:
                return -1
            names >>= 1
            index += 1
        return place

    cdef bint waits(self, int place) noexcept:
        """Whether the reply to a command must wait until the log has released `offset`."""
        return WRITES[place] or (READS[place] and self._gates_reads)

    cdef int serve(self, int place, PlainRequests requests, ReplyBuffer out) except -1:
        """Run a command and add its reply to `out`; 0 when it declined."""
        if not self._fresh:
            self._look_at_log()
        if WRITES[place]:
            if self._ledger.held_bytes() > self._data_bytes_max or not self._has_room(requests):
                return 0
        elif READS[place] and not self._readable:
            return 0
        return HANDLERS[place](self, requests, out)

    cdef int ran(self, int place, PlainRequests requests, long long now_ns) except -1:
        """Count the command that has been served: it ended at `now_ns`, and began where the one before it ended."""
        cdef long long spent_ns = now_ns - self._began_ns
        self._last = place
        self._calls[place] += 1
        self._spent_ns[place] += spent_ns
        if spent_ns >= self._slow_from_ns:
            self._state.count_slow(COMMAND_NAMES[place], requests.argv(), self._session, spent_ns, self.now_ms)
        self._began_ns = now_ns
        return 0

    cdef int commit(self) except -1:
        """Hand the frames to the log."""
        cdef int count = self._frame_count
        if count:
            self._frame_count = 0
            self._log.append(self._frames.take(), count)
            self._room = self._log.room
            if self.offset >= self._memory_offset:
                self._memory.refresh()
        return 0

    cdef void leave(self) noexcept:
        """The session is not served any further for now."""
        if self._last >= 0:
            self._session.last_command = COMMAND_NAMES[self._last]
            self._last = -1

    cdef void stale(self) noexcept:
        """The reference runs: look at the log again before the next request."""
        self._fresh = False

    cdef int _look_at_log(self) except -1:
        log = self._log
        self.commit()
        self.offset = log.offset
        self._room = log.room
        self._gates_reads = log.gates_reads
        self._readable = log.refuse_read() is None
        self._slow_from_ns = self._state.slow_from_ns
        self._fresh = True
        return 0

    cdef int _has_room(self, PlainRequests requests) except -1:
        """Whether the log can take what the request may emit: less than what was sent, and a little."""
        cdef long long wanted = requests.end - requests.at + BLOCK_SLACK_BYTES
        if wanted <= self._room:
            return 1
        self.commit()
        if self._log.refuse_write(wanted) is not None:
            self._fresh = False
            return 0
        self._look_at_log()
        return wanted <= self._room

    cdef char *frame(self, int fields, Py_ssize_t count_bytes) except NULL:
        """Begin a frame of one record of so many fields, which take at most `count_bytes`; where they go."""
        if self._frames.size >= FRAMES_BYTES_MAX:
            self.commit()
        cdef char *at = self._frames.room(count_bytes + 16)
        at = put_head(at, 2)
        at = put_integer(at, self.now_ms)
        return put_head(at, fields)

    cdef void framed(self, char *end) noexcept:
        """The frame reaches up to `end`."""
        cdef Py_ssize_t size = end - self._frames.data - self._frames.size
        self._frames.size += size
        self._frame_count += 1
        self._room -= size
        self.offset += size
