"""Events in the order of their time, packed: the twin of `timeline.Timeline` and of its timelines by type.

An event is no object but a record in a chunk of memory, so that it takes little more than its text, freeing it costs
nothing, and neither Python's allocator nor its garbage collector ever sees it. The form of a record is `_event`'s.

Records of a chunk stand in order, one behind the other, and are found by walking: a chunk is closed when it holds
`CHUNK_BYTES`, some thirty events, so a walk costs less than an index of offsets would. Chunks are told of by one array
(a `Chunk` each: its first key, where its data is, how many it holds), which a binary search finds its way by.

* add at the end: O(1), and memory grows by a fraction of what is held, so that little of it lies idle;
* add anywhere else: one chunk moves, and splits when it holds twice `CHUNK_BYTES`;
* drop the oldest: whole chunks, then `begin` of the first one; whole chunks are handed out, to be freed by whoever
  called, a little at a time if they are many.

There is no list of the events of a type. Each chunk knows by a filter (two bits of 128 for each type in it) which
types it cannot hold; a query by type looks at one `Chunk` for every thirty events and walks where the type may be.
So a trim need not know what types it drops, and an event costs nothing more for being found by its type.

What is read is copied out; no pointer into a chunk outlives the call.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove

from amemdb.stores._event cimport Fields, Key, before, fill, read, record_bytes, write

cdef enum:
    CHUNK_BYTES = 4096       # a chunk that holds as many is closed
    PART_BYTES = 4096        # of what is freed bit by bit
    ALLOCATOR_BYTES = 16     # of its own for each chunk, about

cdef long long INT64_MAX = 0x7FFFFFFFFFFFFFFFLL
cdef long long INT64_MIN = -INT64_MAX - 1


# -- what is asked and answered --------------------------------------------------------------------


cdef bytes type_of(const Fields *event, bytes likely):
    """The event's type: the object `likely`, if it is equal."""
    cdef Py_ssize_t count = event.type_bytes
    if likely is not None and PyBytes_GET_SIZE(likely) == count:
        if memcmp(PyBytes_AS_STRING(likely), event.type, count) == 0:
            return likely
    return PyBytes_FromStringAndSize(event.type, count)


cdef tuple tuple_of(const Fields *event, bytes likely_type):
    """The event as `timeline.Event`."""
    return (
        event.key.at_ms,
        event.key.seq,
        type_of(event, likely_type),
        PyBytes_FromStringAndSize(event.content, event.content_bytes),
        None if event.metadata == NULL else PyBytes_FromStringAndSize(event.metadata, event.metadata_bytes),
        None if event.id == NULL else PyBytes_FromStringAndSize(event.id, event.id_bytes),
    )


cdef Key key_of(tuple probe):
    """A probe as a key: without a number it lies before every event of its time."""
    cdef Key key
    at_ms = probe[0]
    if at_ms > INT64_MAX:  # one beyond the last time there is: behind everything
        key.at_ms = key.seq = INT64_MAX
        return key
    key.at_ms = at_ms
    key.seq = min(probe[1], INT64_MAX) if len(probe) > 1 else INT64_MIN
    return key


# -- the filter of types ---------------------------------------------------------------------------


cdef inline unsigned long long type_hash(const char *text, Py_ssize_t count) noexcept nogil:
    cdef unsigned long long value = <unsigned long long> count
    cdef Py_ssize_t index
    for index in range(count):
        value = (value ^ <unsigned char> text[index]) * 0x100000001B3ULL
    return value ^ value >> 29


cdef inline void add_type(Chunk *chunk, unsigned long long hashed) noexcept nogil:
    chunk.types[0] |= <unsigned long long> 1 << (hashed & 63)
    chunk.types[1] |= <unsigned long long> 1 << (hashed >> 6 & 63)


cdef inline bint may_hold_type(const Chunk *chunk, unsigned long long hashed) noexcept nogil:
    return chunk.types[0] >> (hashed & 63) & chunk.types[1] >> (hashed >> 6 & 63) & 1


# -- the timeline ----------------------------------------------------------------------------------


cdef class Timeline:
    """A sorted sequence of events. Of `chunks`, those from `begin` up to `end` are in use, and none is empty."""

    def __dealloc__(self):
        cdef Py_ssize_t at
        for at in range(self.begin, self.end):
            free(self.chunks[at].data)
        free(self.chunks)

    def __len__(self):
        return self.count

    def memory_bytes(self):
        """How much memory it holds."""
        return self.held_bytes()

    def walked_bytes(self):
        """The same, counted anew."""
        cdef Py_ssize_t at, chunk_bytes = 0
        for at in range(self.begin, self.end):
            chunk_bytes += self.chunks[at].capacity
        return self.held_bytes() - self.chunk_bytes + chunk_bytes

    cdef Py_ssize_t held_bytes(self) noexcept:
        return (
            self.chunk_bytes + (self.end - self.begin) * ALLOCATOR_BYTES + self.room * <Py_ssize_t> sizeof(Chunk)
        )

    def free_some(self, Py_ssize_t count):
        """Free about `count` parts of a timeline that is out of use; how many they were.

        A part is an event, or `PART_BYTES` of a large one. The newest go first: they lie at the end of the heap, and
        where that is freed from its end, pages go back to the system a few at a time, not all with the last one.
        """
        cdef Py_ssize_t freed = 0
        cdef Chunk *chunk
        while freed < count and self.begin < self.end:
            self.end -= 1
            chunk = &self.chunks[self.end]
            freed += max(chunk.count, chunk.capacity // PART_BYTES)
            self.count -= chunk.count
            self.chunk_bytes -= chunk.capacity
            free(chunk.data)
        self.changes += 1
        return freed

    # -- reading -----------------------------------------------------------------------------------

    @property
    def oldest(self):
        """The first event; there must be one."""
        return self.nth_newest(self.count - 1)

    @property
    def newest(self):
        """The last event; there must be one."""
        return self.nth_newest(0)

    def nth_newest(self, Py_ssize_t index):
        """The event that `index` others come after; there must be so many. O(index / chunk)."""
        cdef Fields event
        self.nth_newest_fields(index, &event)
        return tuple_of(&event, None)

    def count_before(self, tuple probe):
        """How many events lie before `probe`. O(log n) and one step a chunk before it."""
        return self.count_before_key(key_of(probe))

    def count_between(self, tuple low, tuple high, bytes event_type=None):
        """How many events, of one type or of all, lie from `low` up to, not including, `high`."""
        cdef const char *kind = NULL if event_type is None else PyBytes_AS_STRING(event_type)
        return self._count_between(key_of(low), key_of(high), kind, 0 if event_type is None else len(event_type))

    def newest_between(self, tuple low, tuple high, Py_ssize_t count_max, bytes event_type=None):
        """The newest `count_max` events from `low` up to, not including, `high`, oldest first."""
        cdef Key first = key_of(low), limit = key_of(high)
        cdef const char *kind = NULL if event_type is None else PyBytes_AS_STRING(event_type)
        cdef Py_ssize_t kind_bytes = 0 if event_type is None else PyBytes_GET_SIZE(event_type)
        cdef unsigned long long hashed = 0 if kind == NULL else type_hash(kind, kind_bytes)
        cdef list parts = []
        cdef Py_ssize_t at, skip, found
        cdef Chunk *chunk
        if self.count == 0:
            return parts
        at = self._chunk_of(limit)
        while count_max > 0 and at >= self.begin:
            chunk = &self.chunks[at]
            if kind == NULL or may_hold_type(chunk, hashed):
                found = count_in(chunk, first, limit, kind, kind_bytes)
                if found:
                    skip = max(0, found - count_max)
                    parts.append(events_in(chunk, first, limit, kind, kind_bytes, skip))
                    count_max -= found - skip
            if before(chunk.first, first):
                break
            at -= 1
        if len(parts) == 1:
            return parts[0]
        parts.reverse()
        return [event for part in parts for event in part]

    def oldest_from(self, tuple low):
        """The events from `low` on, oldest first, while nothing is added or dropped. O(log n) and a step an event."""
        cdef Key first = key_of(low)
        cdef Py_ssize_t at, offset, changes = self.changes
        cdef Fields event
        cdef const char *place
        if self.count == 0:
            return
        at = self._chunk_of(first)
        while at < self.end:
            offset = self.chunks[at].begin
            while offset < self.chunks[at].used:
                place = read(self.chunks[at].data + offset, &event)
                offset = place - self.chunks[at].data
                if before(event.key, first):
                    continue
                yield tuple_of(&event, None)
                # What the walk holds is a place in memory, which a change may have freed.
                assert self.changes == changes, "a timeline changed while it was walked"
            at += 1

    cdef Key oldest_key(self) noexcept:
        """The key of the first event; there must be one."""
        return self.chunks[self.begin].first

    cdef int nth_newest_fields(self, Py_ssize_t index, Fields *event) except -1:
        """Point `event` at the event that `index` others come after, until the timeline changes."""
        cdef Py_ssize_t at = self.end - 1
        cdef const char *place
        assert 0 <= index < self.count, "a timeline was asked for more events than it holds"
        while index >= self.chunks[at].count:
            index -= self.chunks[at].count
            at -= 1
        place = self.chunks[at].data + self.chunks[at].begin
        for _ in range(self.chunks[at].count - index):
            place = read(place, event)
        return 0

    cdef Py_ssize_t count_before_key(self, Key key) noexcept:
        cdef Key lowest
        lowest.at_ms = lowest.seq = INT64_MIN
        return self._count_between(lowest, key, NULL, 0)

    cdef list slice(self, Py_ssize_t begin, Py_ssize_t end):
        """The events from the one with `begin` older ones up to, not including, the one with `end`."""
        cdef Py_ssize_t at = self.begin, index
        cdef list found = []
        cdef Fields event
        cdef const char *place
        end = min(end, self.count)
        while begin < end:
            if begin >= self.chunks[at].count:
                begin -= self.chunks[at].count
                end -= self.chunks[at].count
            else:
                place = self.chunks[at].data + self.chunks[at].begin
                for index in range(min(end, self.chunks[at].count)):
                    place = read(place, &event)
                    if index >= begin:
                        found.append(tuple_of(&event, None))
                begin = 0
                end -= self.chunks[at].count
            at += 1
        return found

    cdef Py_ssize_t _count_between(self, Key low, Key high, const char *kind, Py_ssize_t kind_bytes) noexcept:
        cdef unsigned long long hashed = 0 if kind == NULL else type_hash(kind, kind_bytes)
        cdef Py_ssize_t at, total = 0
        cdef Chunk *chunk
        if self.count == 0 or not before(low, high):
            return 0
        at = self._chunk_of(low)
        while at < self.end and before(self.chunks[at].first, high):
            chunk = &self.chunks[at]
            if kind == NULL and not before(chunk.first, low) and at + 1 < self.end \
                    and not before(high, self.chunks[at + 1].first):
                total += chunk.count
            elif kind == NULL or may_hold_type(chunk, hashed):
                total += count_in(chunk, low, high, kind, kind_bytes)
            at += 1
        return total

    cdef Py_ssize_t _chunk_of(self, Key key) noexcept:
        """The last chunk that begins at or before `key`, else the first one; there must be one."""
        cdef Py_ssize_t low = self.begin, high = self.end, middle
        while high - low > 1:
            middle = (low + high) // 2
            if before(key, self.chunks[middle].first):
                high = middle
            else:
                low = middle
        return low

    # -- changes -----------------------------------------------------------------------------------

    def add(self, tuple event):
        """Take `event` to its place."""
        cdef Fields fields
        cdef bytes kind, content, metadata, event_id
        fields.key.at_ms, fields.key.seq, kind, content, metadata, event_id = event
        fill(&fields, kind, content, metadata, event_id)
        self.put(&fields)

    def drop_oldest(self, Py_ssize_t count):
        """Remove the oldest `count` events, of which there must be so many; what is left to be buried, or None."""
        return self.drop(count)

    cdef int put(self, const Fields *event) except -1:
        """Take `event` to its place."""
        cdef Py_ssize_t size = record_bytes(event)
        cdef Chunk *chunk
        if self.count and before(event.key, self.last):
            self._insert(event, size)
        else:
            if self.end == self.begin or self.chunks[self.end - 1].used + size > self.chunks[self.end - 1].capacity:
                self._open_chunk(size)
            chunk = &self.chunks[self.end - 1]
            if chunk.count == 0:
                chunk.first = event.key
            write(chunk.data + chunk.used, event)
            chunk.used += size
            chunk.count += 1
            add_type(chunk, type_hash(event.type, event.type_bytes))
            self.last = event.key
        self.count += 1
        self.changes += 1
        return 0

    cdef Timeline drop(self, Py_ssize_t count):
        """Remove the oldest `count` events, of which there must be so many; what is left to be buried, or None."""
        cdef Py_ssize_t at = self.begin, left = count
        cdef Timeline dropped = None
        cdef Chunk *chunk
        cdef Fields event
        cdef const char *place
        assert 0 <= count <= self.count, "a timeline was told to drop more events than it holds"
        if count == 0:
            return None
        self.changes += 1
        if count == self.count:
            return self._without_all()
        while left >= self.chunks[at].count:
            left -= self.chunks[at].count
            at += 1
        if at > self.begin:
            dropped = self._without_first(at - self.begin, count - left)
        if left:
            self.count -= left
            chunk = &self.chunks[self.begin]
            place = chunk.data + chunk.begin
            chunk.count -= left
            while left:
                place = read(place, &event)
                left -= 1
            chunk.begin = place - chunk.data
            read(place, &event)
            chunk.first = event.key
        return dropped

    cdef Timeline _without_all(self):
        """Take everything out into a timeline that is returned."""
        cdef Timeline taken = Timeline.__new__(Timeline)
        taken.chunks, self.chunks = self.chunks, NULL
        taken.begin, taken.end, taken.room = self.begin, self.end, self.room
        taken.count, taken.chunk_bytes = self.count, self.chunk_bytes
        self.begin = self.end = self.room = self.count = self.chunk_bytes = 0
        return taken

    cdef Timeline _without_first(self, Py_ssize_t chunk_count, Py_ssize_t count):
        """Take the first chunks, which hold `count` events, out into a timeline that is returned."""
        cdef Timeline taken = Timeline.__new__(Timeline)
        cdef Py_ssize_t at
        taken.chunks = <Chunk *> malloc(chunk_count * sizeof(Chunk))
        if taken.chunks == NULL:
            raise MemoryError
        memcpy(taken.chunks, self.chunks + self.begin, chunk_count * sizeof(Chunk))
        taken.end = taken.room = chunk_count
        taken.count = count
        for at in range(chunk_count):
            taken.chunk_bytes += taken.chunks[at].capacity
        self.begin += chunk_count
        self.count -= count
        self.chunk_bytes -= taken.chunk_bytes
        return taken

    cdef int _open_chunk(self, Py_ssize_t size) except -1:
        """Have the last chunk take `size` more bytes: make it larger, or begin another one."""
        cdef Chunk *chunk
        cdef Py_ssize_t capacity
        if self.end > self.begin:
            chunk = &self.chunks[self.end - 1]
            if chunk.used < CHUNK_BYTES and chunk.used + size <= 2 * CHUNK_BYTES:
                self._enlarge(chunk, size)
                return 0
        self._make_room()
        # A log that holds little gets little: idle memory is a small part of what is held.
        capacity = max(size, min(CHUNK_BYTES, (self.end - self.begin) * (CHUNK_BYTES // 4)))
        chunk = &self.chunks[self.end]
        chunk.data = <char *> malloc(capacity)
        if chunk.data == NULL:
            raise MemoryError
        self.chunk_bytes += capacity
        chunk.capacity = capacity
        chunk.begin = chunk.used = chunk.count = 0
        chunk.types[0] = chunk.types[1] = 0
        self.end += 1
        return 0

    cdef int _insert(self, const Fields *event, Py_ssize_t size) except -1:
        """Take in an event that is not the newest."""
        cdef Py_ssize_t at = self._chunk_of(event.key), offset
        cdef Chunk *chunk = &self.chunks[at]
        cdef Fields other
        cdef const char *place = chunk.data + chunk.begin
        cdef const char *following
        while place < chunk.data + chunk.used:
            following = read(place, &other)
            if before(event.key, other.key):
                break
            place = following
        offset = place - chunk.data
        if chunk.used + size > chunk.capacity:
            self._enlarge(chunk, size)
        memmove(chunk.data + offset + size, chunk.data + offset, chunk.used - offset)
        write(chunk.data + offset, event)
        chunk.used += size
        chunk.count += 1
        add_type(chunk, type_hash(event.type, event.type_bytes))
        if offset == chunk.begin:
            chunk.first = event.key
        if chunk.used - chunk.begin > 2 * CHUNK_BYTES and chunk.count > 1:
            self._split(at)
        return 0

    cdef int _split(self, Py_ssize_t at) except -1:
        """Make two chunks of the one at `at`, which has become too large."""
        cdef Py_ssize_t from_begin = at - self.begin, head_count = 0, offset, half, tail_bytes
        cdef Chunk *chunk
        cdef Chunk *other
        cdef char *data
        cdef Fields event
        self._make_room()
        chunk = &self.chunks[self.begin + from_begin]
        other = chunk + 1
        half = (chunk.begin + chunk.used) // 2
        offset = chunk.begin
        while head_count == 0 or head_count < chunk.count - 1 and offset < half:
            offset = read(chunk.data + offset, &event) - chunk.data
            head_count += 1
        tail_bytes = chunk.used - offset
        data = <char *> malloc(tail_bytes)
        if data == NULL:
            raise MemoryError
        memcpy(data, chunk.data + offset, tail_bytes)
        memmove(other + 1, other, (self.end - self.begin - from_begin - 1) * sizeof(Chunk))
        self.end += 1
        self.chunk_bytes += tail_bytes
        other.data = data
        other.begin = 0
        other.used = other.capacity = tail_bytes
        other.count = chunk.count - head_count
        chunk.used = offset
        chunk.count = head_count
        look_through(chunk)
        look_through(other)
        return 0

    cdef int _enlarge(self, Chunk *chunk, Py_ssize_t size) except -1:
        """Have the chunk take `size` more bytes."""
        cdef Py_ssize_t needed = chunk.used + size
        cdef Py_ssize_t capacity = max(needed, min(CHUNK_BYTES, chunk.used + chunk.used // 2 + 64))
        cdef char *data = <char *> realloc(chunk.data, capacity)
        if data == NULL:
            raise MemoryError
        self.chunk_bytes += capacity - chunk.capacity
        chunk.data, chunk.capacity = data, capacity
        return 0

    cdef int _make_room(self) except -1:
        """Have room for one more chunk in the array of chunks; which may move them."""
        cdef Py_ssize_t held = self.end - self.begin, room
        cdef Chunk *chunks
        if self.end < self.room:
            return 0
        if self.begin > held // 2:
            memmove(self.chunks, self.chunks + self.begin, held * sizeof(Chunk))
            self.begin, self.end = 0, held
            return 0
        room = self.room + self.room // 2 + 1
        chunks = <Chunk *> realloc(self.chunks, room * sizeof(Chunk))
        if chunks == NULL:
            raise MemoryError
        self.chunks, self.room = chunks, room
        return 0


# -- one chunk -------------------------------------------------------------------------------------


cdef void look_through(Chunk *chunk) noexcept:
    """Learn first key and types from the records."""
    cdef Fields event
    cdef const char *place = chunk.data + chunk.begin
    read(place, &event)
    chunk.first = event.key
    chunk.types[0] = chunk.types[1] = 0
    while place < chunk.data + chunk.used:
        place = read(place, &event)
        add_type(chunk, type_hash(event.type, event.type_bytes))


cdef inline bint is_within(const Fields *event, Key low, Key high, const char *kind, Py_ssize_t kind_bytes) noexcept:
    if kind != NULL and (event.type_bytes != kind_bytes or memcmp(event.type, kind, kind_bytes) != 0):
        return False
    return not before(event.key, low) and before(event.key, high)


cdef Py_ssize_t count_in(const Chunk *chunk, Key low, Key high, const char *kind, Py_ssize_t kind_bytes) noexcept:
    """How many events of the chunk, of one type or of all, lie from `low` up to, not including, `high`."""
    cdef const char *place = chunk.data + chunk.begin
    cdef Py_ssize_t found = 0
    cdef Fields event
    while place < chunk.data + chunk.used:
        place = read(place, &event)
        found += is_within(&event, low, high, kind, kind_bytes)
    return found


cdef list events_in(const Chunk *chunk, Key low, Key high, const char *kind, Py_ssize_t kind_bytes, Py_ssize_t skip):
    """Those events, without the first `skip`."""
    cdef const char *place = chunk.data + chunk.begin
    cdef list found = []
    cdef bytes likely = None
    cdef Fields event
    while place < chunk.data + chunk.used:
        place = read(place, &event)
        if is_within(&event, low, high, kind, kind_bytes):
            if skip > 0:
                skip -= 1
            else:
                likely = type_of(&event, likely)
                found.append(tuple_of(&event, likely))
    return found
