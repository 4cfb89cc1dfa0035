"""Records read straight from a block's bytes into the stores: how a start, or a compaction, loads millions of them.

The reference is what `amemdb.persistence.recovery` does with a payload: `codec.FrameReader` makes tuples of all of it,
`codec.misfit` looks at them, and `Stores.apply` takes one after the other. For a plain turn, note, event or value that
is a tuple, six objects and three calls for what are some hundred bytes to be copied, so those four go from here to the
stores' typed methods, as live ones do from `amemdb.engine._hot`.

The reference decides
---------------------
1. `_plain` takes a record whose effect is that typed method and nothing else: an object that is there, no expiry, no
   id, nobody watching. It looks first; what follows the first change cannot fail. So it never has an error to tell.
2. What it declines needs an applier, which may have one. Therefore the rest of the block is looked through before the
   first such record (`is_right`): whether it is nothing but frames of known records of integers, bytes, nil, true and
   false. If so, each record is made the tuple that msgpack would make of it, and `Stores.apply` has the say.
3. If not, nothing of that frame has been done, and what is left of the block, from there on, is the reference's:
   whatever is wrong with it is found by the same code, at the same place, whether the twins are in use or not.

Small blocks
------------
A client that waits for each reply makes a block of each command, and what a block costs the reference, some four
microseconds, is many times what its record does. `take_blocks` goes through small ones in a row. A block is whole, by
the codec's rule 3, if its header is the one that would be packed for it where it lies, which is how that is found out;
and it is only begun when all of it is right. Whatever else there is, it stops in front of.

The bytes have passed a checksum, and are not trusted for that: nothing is read that was not seen to lie before the
end of the payload, and no number from it is an index before it was compared.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp

from amemdb.persistence._unpacking cimport (
    Place, Text, little_endian, take_bytes, take_field, take_head, take_integer, take_nil
)
from amemdb.persistence._writing cimport Tail
from amemdb.stores._conversation cimport Conversation
from amemdb.stores._database cimport Database
from amemdb.stores._episodic cimport EventLog
from amemdb.stores._memory cimport Ledger, text_bytes
from amemdb.stores._turn_bytes cimport role_number
from amemdb.stores._working cimport Notes

from amemdb.persistence.codec import KNOWN_KINDS
from amemdb.stores import records

cdef enum:
    KINDS = 64
    PLAIN_BYTES_MAX = 1048576  # a longer text is the reference's, for which it is no more than one copy of many
    HEADER_BYTES = 40  # of a block
    BLOCK_BYTES_MAX = 8192  # zlib's checksum of what is larger is faster by more than the interpreter costs
    RUN_BYTES_MAX = 262144  # of blocks in one call, as much as a block may have anyway
    KEY_BYTES_MAX = 0xFFFF  # of a note's key, as `Notes` asserts

cdef long long SEQ_MAX = 0x7FFFFFFFFFFFFFFELL
cdef int TURN_APPENDED = records.TURN_APPENDED
cdef int NOTE_SET = records.NOTE_SET
cdef int EVENT_LOGGED = records.EVENT_LOGGED
cdef int KEY_SET = records.KEY_SET
cdef bint[KINDS] KNOWN

for _kind in range(KINDS):
    KNOWN[_kind] = _kind in KNOWN_KINDS
assert max(KNOWN_KINDS) < KINDS

# -- what is right: see `_unpacking.pxd` for what takes and gives a place ----------------------------------


cdef Place take_record(Place at, Place end) noexcept nogil:
    """A record of a known kind."""
    cdef long long count, kind
    at = take_head(at, end, &count)
    if at == NULL or count == 0:
        return NULL
    at = take_integer(at, end, &kind)
    if at == NULL or not 0 <= kind < KINDS or not KNOWN[kind]:
        return NULL
    while count > 1 and at != NULL:
        at = take_field(at, end)
        count -= 1
    return at


cdef bint is_right(Place at, Place end, bint framed) noexcept nogil:
    """Whether frames of known records, or such records alone, are all that lies from `at` to `end`."""
    cdef long long count = 2, time_ms
    while at < end:
        if framed:
            at = take_head(at, end, &count)
            if at == NULL or count < 2:
                return False
            at = take_integer(at, end, &time_ms)
        while count > 1 and at != NULL:
            at = take_record(at, end)
            count -= 1
        if at == NULL:
            return False
        count = 2
    return True


# -- objects -------------------------------------------------------------------------------------------


cdef Place make_field(Place at, Place end, tuple record, Py_ssize_t index) except NULL:
    """Put the field at `at`, which is right, into its place in `record`."""
    cdef object field = None
    cdef long long number = 0
    cdef Text text = Text(NULL, 0)
    if at[0] == 0xC0:
        at += 1
    elif at[0] == 0xC2 or at[0] == 0xC3:
        field = at[0] == 0xC3
        at += 1
    elif 0xC4 <= at[0] <= 0xC6:
        at = take_bytes(at, end, &text)
        assert at != NULL, "it was looked through"
        field = PyBytes_FromStringAndSize(text.data, text.size)
    else:
        at = take_integer(at, end, &number)
        assert at != NULL, "it was looked through"
        field = number
    Py_INCREF(field)
    PyTuple_SET_ITEM(record, index, field)
    return at


# -- replay --------------------------------------------------------------------------------------------


cdef class Replayer:
    """Takes records out of payloads into `stores`. Counts and time are those of the last call that took any."""

    cdef object _apply, _conv, _work, _epis
    cdef dict _sessions, _logs, _watched
    cdef list _databases
    cdef Ledger _ledger
    cdef bytes _name
    cdef readonly Py_ssize_t block_count
    cdef readonly Py_ssize_t frame_count
    cdef readonly Py_ssize_t record_count
    cdef readonly long long time_ms
    cdef readonly Py_ssize_t payload_bytes
    """Of the blocks."""
    cdef readonly uint64_t durable
    """The highest that their headers recorded."""
    cdef readonly bint closed
    """Whether the last of them is a closing header."""
    cdef readonly Py_ssize_t begun
    """Where in what was given the last block that was begun lies."""

    def __init__(self, stores):
        self._apply = stores.apply
        self._conv = stores.conv
        self._work = stores.work
        self._epis = stores.epis
        self._watched = stores.keys.watched
        self._databases = stores.keys.databases
        self._ledger = stores.ledger
        self._name = b""

    def take_frames(self, payload):
        """Apply frames from the front of `payload`; how many bytes they take. The rest is for the reference."""
        return self._take(payload, True)

    def take_records(self, payload):
        """The same of bare records, as a base has them."""
        return self._take(payload, False)

    def take_blocks(self, Tail tail not None, blocks, uint64_t position, uint64_t offset, uint64_t end):
        """Apply small blocks from the front of `blocks`, up to offset `end`; how many bytes they are.

        They lie at `position` in the segment that `tail` packs headers for, and the first should be of `offset`.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(blocks, &view, PyBUF_SIMPLE)
        try:
            return self._blocks(tail, <Place> view.buf, view.len, position, offset, end)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t _blocks(
        self, Tail tail, Place begin, Py_ssize_t size, uint64_t position, uint64_t offset, uint64_t end
    ) except -1:
        cdef Place at = begin
        cdef uint8_t header[HEADER_BYTES]
        cdef Py_ssize_t left, length, frames = 0, changes = 0
        cdef uint64_t durable
        cdef long long time_ms = 0
        self.block_count = self.payload_bytes = 0
        self.durable = 0
        self.closed = False
        while at - begin < RUN_BYTES_MAX:
            left = size - (at - begin) - HEADER_BYTES
            if left < 0 or little_endian(at + 8, 8) != offset or offset == end:
                break
            durable = little_endian(at + 16, 8)
            length = <Py_ssize_t> little_endian(at + 24, 4)
            if durable > offset or length > BLOCK_BYTES_MAX or length > left or <uint64_t> length > end - offset:
                break
            tail._pack(header, position + (at - begin), offset, durable, <const char *> at + HEADER_BYTES, length)
            if memcmp(header, at, HEADER_BYTES) != 0:
                break
            if not is_right(at + HEADER_BYTES, at + HEADER_BYTES + length, True):
                break
            self.begun = at - begin
            self._taken(at + HEADER_BYTES, length, True, True)
            if length:
                time_ms = self.time_ms
            frames += self.frame_count
            changes += self.record_count
            self.block_count += 1
            self.payload_bytes += length
            self.durable = max(self.durable, durable)
            self.closed = length == 0
            at += HEADER_BYTES + length
            offset += length
        self.frame_count = frames
        self.record_count = changes
        if frames:
            self.time_ms = time_ms
        return at - begin

    cdef Py_ssize_t _take(self, object payload, bint framed) except -1:
        cdef Py_buffer view
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            return self._taken(<Place> view.buf, view.len, framed, False)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t _taken(self, Place begin, Py_ssize_t size, bint framed, bint checked) except -1:
        """With `checked`, all of it is known to be right."""
        cdef Place at = begin
        cdef Place end = begin + size
        cdef Place place
        cdef Place behind
        cdef long long count = 2, time_ms = 0
        self.frame_count = self.record_count = 0
        self._look()
        while at < end:
            place = at
            if framed:
                place = take_head(at, end, &count)
                if place == NULL or count < 2:
                    break
                place = take_integer(place, end, &time_ms)
                if place == NULL:
                    break
                # Of a frame of several, none may be done before all are known to be right.
                if count > 2 and not checked:
                    if not is_right(at, end, framed):
                        break
                    checked = True
            while count > 1:
                behind = self._plain(place, end)
                if behind == NULL:
                    if not checked:
                        if not is_right(at, end, framed):
                            return at - begin
                        checked = True
                    behind = self._other(place, end)
                place = behind
                count -= 1
                self.record_count += 1
            count = 2
            at = place
            self.frame_count += framed
            self.time_ms = time_ms
        return at - begin

    cdef int _look(self) except -1:
        """A flush has put other tables in their places."""
        self._sessions = self._conv.sessions
        self._logs = self._epis.logs
        return 0

    cdef Place _other(self, Place at, Place end) except NULL:
        """Have the stores apply the record at `at`, which is right."""
        cdef long long count = 0
        cdef Py_ssize_t index
        cdef tuple record
        at = take_head(at, end, &count)
        assert at != NULL, "it was looked through"
        record = PyTuple_New(<Py_ssize_t> count)
        for index in range(<Py_ssize_t> count):
            at = make_field(at, end, record, index)
        self._apply(record)
        self._look()
        return at

    cdef PyObject *_found(self, dict table, Text name) except? NULL:
        """What `table` has of that name. Records of one object often follow one another: its name is kept."""
        if PyBytes_GET_SIZE(self._name) != name.size or memcmp(PyBytes_AS_STRING(self._name), name.data, name.size):
            self._name = PyBytes_FromStringAndSize(name.data, name.size)
        return PyDict_GetItem(table, self._name)

    cdef Place _plain(self, Place at, Place end) except? NULL:
        """Do what the record at `at` says, and the place behind it; NULL if it is not a plain one, and nothing done."""
        cdef long long count, kind
        at = take_head(at, end, &count)
        if at != NULL:
            at = take_integer(at, end, &kind)
        if at == NULL:
            return NULL
        if kind == TURN_APPENDED and count == 7:
            return self._turn(at, end)
        if kind == NOTE_SET and count == 5:
            return self._note(at, end)
        if kind == EVENT_LOGGED and count == 8:
            return self._event(at, end)
        if kind == KEY_SET and count == 5:
            return self._value(at, end)
        return NULL

    cdef Place _turn(self, Place at, Place end) except? NULL:
        cdef Text session, role, content
        cdef Conversation conversation
        cdef Py_ssize_t before
        cdef PyObject *found
        cdef long long at_ms
        cdef int number
        at = take_bytes(at, end, &session)
        if at != NULL:
            at = take_bytes(at, end, &role)
        if at != NULL:
            at = take_bytes(at, end, &content)
        if at != NULL:
            at = take_integer(at, end, &at_ms)
        if at != NULL:
            at = take_nil(at, end)
        if at != NULL:
            at = take_nil(at, end)
        if at == NULL or content.size > PLAIN_BYTES_MAX:
            return NULL
        number = role_number(role.data, role.size)
        if number < 0:
            return NULL
        found = self._found(self._sessions, session)
        if found == NULL:
            return NULL
        conversation = <Conversation?> <object> found
        before = conversation._allocated_bytes
        conversation.append_plain(number, content.data, content.size, at_ms)
        self._ledger.conversation += conversation._allocated_bytes - before
        return at

    cdef Place _note(self, Place at, Place end) except? NULL:
        cdef Text session, key, text
        cdef Conversation conversation
        cdef long long expire_at_ms
        cdef Py_ssize_t before
        cdef PyObject *found
        cdef Notes notes
        at = take_bytes(at, end, &session)
        if at != NULL:
            at = take_bytes(at, end, &key)
        if at != NULL:
            at = take_bytes(at, end, &text)
        if at != NULL:
            at = take_integer(at, end, &expire_at_ms)
        if at == NULL or expire_at_ms != 0 or key.size > KEY_BYTES_MAX or text.size > PLAIN_BYTES_MAX:
            return NULL
        found = self._found(self._sessions, session)
        if found == NULL:
            return NULL
        conversation = <Conversation?> <object> found
        notes = conversation.notes
        if notes is None:
            notes = self._work.notes_of(conversation.name)
        before = notes._allocated_bytes
        if not notes.set_plain(key.data, key.size, text.data, text.size):
            return NULL
        self._ledger.working += notes._allocated_bytes - before
        return at

    cdef Place _event(self, Place at, Place end) except? NULL:
        cdef Text agent, kind, content
        cdef long long seq, at_ms
        cdef Py_ssize_t before
        cdef PyObject *found
        cdef EventLog log
        at = take_bytes(at, end, &agent)
        if at != NULL:
            at = take_integer(at, end, &seq)
        if at != NULL:
            at = take_integer(at, end, &at_ms)
        if at != NULL:
            at = take_bytes(at, end, &kind)
        if at != NULL:
            at = take_bytes(at, end, &content)
        if at != NULL:
            at = take_nil(at, end)
        if at != NULL:
            at = take_nil(at, end)
        if at == NULL or kind.size > PLAIN_BYTES_MAX or content.size > PLAIN_BYTES_MAX:
            return NULL
        found = self._found(self._logs, agent)
        if found == NULL:
            return NULL
        log = <EventLog?> <object> found
        # A limit of events is no matter here: what goes by it is told by a record of its own.
        if log.maxage_ms != 0 or log.ids is not None or not log.next_seq <= seq <= SEQ_MAX:
            return NULL
        log.next_seq = seq  # a base begins with the oldest that is left, and events do not lie in the order of arrival
        before = log.events.held_bytes()
        log.log_plain(kind.data, kind.size, content.data, content.size, at_ms)
        self._ledger.episodic += log.events.held_bytes() - before
        return at

    cdef Place _value(self, Place at, Place end) except? NULL:
        cdef long long db, expire_at_ms
        cdef Database database
        cdef Py_ssize_t more
        cdef PyObject *found
        cdef Text name, text
        cdef dict values
        cdef bytes key
        at = take_integer(at, end, &db)
        if at != NULL:
            at = take_bytes(at, end, &name)
        if at != NULL:
            at = take_bytes(at, end, &text)
        if at != NULL:
            at = take_integer(at, end, &expire_at_ms)
        if at == NULL or expire_at_ms != 0 or text.size > PLAIN_BYTES_MAX:
            return NULL
        if not 0 <= db < len(self._databases) or len(self._watched):
            return NULL
        database = <Database?> self._databases[db]
        key = PyBytes_FromStringAndSize(name.data, name.size)
        if len(database.expires) and PyDict_GetItem(database.expires, key) != NULL:
            return NULL
        values = database.values
        found = PyDict_GetItem(values, key)
        more = text_bytes(text.size)
        if found == NULL:
            database.names.add_name(key)
            more += text_bytes(name.size)
        elif PyBytes_CheckExact(<object> found):
            more -= text_bytes(PyBytes_GET_SIZE(<object> found))
        else:
            return NULL
        database.held_bytes += more
        self._ledger.keyspace += more
        PyDict_SetItem(values, key, PyBytes_FromStringAndSize(text.data, text.size))
        return at
