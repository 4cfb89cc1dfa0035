"""A session's turns, packed like a listpack: the compiled twin of `amemdb.stores.conversation.PlainConversation`.

Turns lie one behind the other in chunks, without an object for each; what the bytes of one are is told in
`_turn_bytes.pxd`. The newest are found by stepping back from the end, and read by stepping forward from there.

1. Turns enter at the end of the newest chunk and leave at the front of the oldest: only its `start` moves. A chunk
   without turns is freed.
2. A chunk grows by half of its size until it is full, and is then shrunk to what it holds; what is full at
   depends on the session: 4 KiB to begin with, 64 KiB for large ones, so that a session of a million turns has some
   thousands of chunks, and is dropped, or held on to, as quickly as one can count to that.
3. Before a chunk grows, the room of turns that have left it is used again, if that is a quarter of it: a window of a
   few turns lives in one chunk for ever.
4. A snapshot (`Turns`) shares chunks. Bytes that were written to a shared chunk never change and never move: nothing
   is grown, shrunk or moved down in it. New turns may be written behind those that the snapshot knows of.
5. Ids are in a table of hashes and numbers of turns (`_turn_ids.pxd`). No id is ever removed: one whose turn has left
   the window has too small a number, and goes when the table is made anew. A hash that is found is compared with the
   turn itself.

Roles other than the four are not stored: no command lets them in.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memmove

from amemdb.stores._turn_bytes cimport Turn, length_before, length_bytes, put_turn, role_bytes, take_turn, text_bytes_of
from amemdb.stores._turn_bytes cimport turn_bytes
from amemdb.stores._turn_ids cimport IdSlot, IdTable, is_full, put_id, put_live_ids, table_bytes

cdef extern from *:
    void __builtin_prefetch(const void *place) noexcept nogil

cdef enum:
    CHUNK_BYTES_MIN = 4096
    CHUNK_BYTES_MAX = 65536
    CHUNKS_OF_A_SESSION = 16  # about, once it is too large for chunks of the smallest size
    SLACK_BYTES = 64          # what is not worth a shrinking
    ID_SLOTS_MIN = 8
    PAGE_SHIFT = 12
    LINE_BYTES = 64
    FETCHED_BYTES_MAX = 4096

cdef tuple ROLES = (b"system", b"user", b"assistant", b"tool")
cdef Py_ssize_t LENGTH_MAX = 0xF0000000
"""Of one record: sizes and places in a chunk have 32 bits. Commands take at most an eighth of that."""


# -- chunks ------------------------------------------------------------------------------------------


cdef inline char *_data(Chunk *chunk) noexcept nogil:
    return <char *> chunk + sizeof(Chunk)


cdef inline Py_ssize_t _rounded(Py_ssize_t capacity) noexcept nogil:
    """At least `capacity`, using all that an allocator which keeps eight bytes of every sixteen gives anyway."""
    return ((<Py_ssize_t> sizeof(Chunk) + capacity + 23) & ~15) - 8 - <Py_ssize_t> sizeof(Chunk)


cdef inline Py_ssize_t _allocated(const Chunk *chunk) noexcept nogil:
    return <Py_ssize_t> sizeof(Chunk) + chunk.capacity + 8


cdef inline Py_ssize_t _parts(Py_ssize_t turns, const Chunk *chunk) noexcept nogil:
    """What the freeing of a chunk counts: turns or, as giving them back costs more, pages."""
    return max(turns, chunk.capacity >> PAGE_SHIFT)


cdef inline void _release(Chunk *chunk) noexcept nogil:
    chunk.refs -= 1
    if chunk.refs == 0:
        free(chunk)


cdef inline void _fetch(const Chunk *chunk, Py_ssize_t turns) noexcept nogil:
    """Have the newest `turns` of a chunk brought from memory at once.

    Each step back, and then each step forward, would otherwise wait for the one before: in a window of ten turns
    of a session that was not used lately, that is most of the time.
    """
    cdef Py_ssize_t size = <Py_ssize_t> (chunk.used - chunk.start) * turns // chunk.turns
    cdef const char *begin = <const char *> chunk + sizeof(Chunk) + chunk.start
    cdef const char *at = <const char *> chunk + sizeof(Chunk) + chunk.used - 1
    begin = max(begin, at - min(size, FETCHED_BYTES_MAX))
    while at > begin:
        __builtin_prefetch(at)
        at -= LINE_BYTES


cdef inline unsigned int _read(Chunk *chunk, unsigned int at, Turn *turn) noexcept nogil:
    """The turn at `at`, and where the next one begins."""
    return at + <unsigned int> take_turn(_data(chunk) + at, turn)


cdef tuple _tuple(const Turn *turn):
    """A turn as the reference has it."""
    return (
        ROLES[turn.role],
        PyBytes_FromStringAndSize(turn.content, turn.content_bytes),
        turn.at_ms,
        None if turn.id_bytes < 0 else PyBytes_FromStringAndSize(turn.id, turn.id_bytes),
        None if turn.meta_bytes < 0 else PyBytes_FromStringAndSize(turn.meta, turn.meta_bytes),
    )


# -- a session ---------------------------------------------------------------------------------------


cdef class Conversation:
    """One session. `seq` counts every turn ever appended; the newest turn has that number."""

    def __init__(self, bytes name not None, long long window, long long expire_at_ms, long long created_at_ms,
                 long long seq):
        self.name = name
        self.window = window
        self.expire_at_ms = expire_at_ms
        self.created_at_ms = created_at_ms
        self.seq = seq

    def __dealloc__(self):
        self._drop_oldest(self.count)
        free(self._ids)

    def __len__(self):
        return self.count

    def dead(self, long long now_ms):
        """Whether the session's time has passed."""
        return 0 < self.expire_at_ms <= now_ms

    def newest(self, Py_ssize_t count):
        """The newest `count` turns, oldest first."""
        cdef Cursor cursor
        cdef Turn turn
        cdef list turns = []
        self.seek_newest(count, &cursor)
        while self.next_turn(&cursor, &turn):
            turns.append(_tuple(&turn))
        return turns

    def snapshot(self, Py_ssize_t count):
        """The newest `count` turns as they are now, whatever becomes of the session."""
        return _snapshot(self, count)

    def holds_id(self, bytes turn_id not None):
        """Whether a turn of that id is still in the window."""
        cdef unsigned long long wanted
        cdef IdSlot *slot
        cdef Turn turn
        cdef Py_ssize_t at
        if self._ids == NULL:
            return False
        wanted = <unsigned long long> hash(turn_id)
        at = <Py_ssize_t> (wanted & <unsigned long long> self._ids.mask)
        while True:
            slot = &self._ids.slots[at]
            if slot.number == 0:
                return False
            if slot.hash == wanted and slot.number > self.seq - self.count:
                turn = self._turn_of_number(slot.number)
                if turn.id_bytes == len(turn_id) and memcmp(turn.id, PyBytes_AS_STRING(turn_id), turn.id_bytes) == 0:
                    return True
            at = (at + 1) & self._ids.mask

    def content_bytes(self):
        """Bytes of roles, contents, ids and metas held."""
        return self._text_bytes

    def newest_bytes(self, Py_ssize_t count):
        """The same of the newest `count` turns."""
        cdef Cursor cursor
        cdef Turn turn
        cdef Py_ssize_t size = 0
        self.seek_newest(count, &cursor)
        while self.next_turn(&cursor, &turn):
            size += text_bytes_of(&turn)
        return size

    def memory_bytes(self):
        """Bytes of memory that the session has to itself."""
        return self.__sizeof__() + self._allocated_bytes + (0 if self._ids == NULL else table_bytes(self._ids.mask + 1))

    def walked_bytes(self):
        """The same, counted anew."""
        cdef Chunk *chunk = self._oldest
        cdef Py_ssize_t size = 0
        while chunk != NULL:
            size += _allocated(chunk)
            chunk = chunk.newer
        return self.memory_bytes() - self._allocated_bytes + size

    def append(self, tuple turn not None):
        """Take `turn` in, and let the oldest go when the window is full."""
        cdef Turn packed
        cdef bytes role, content, turn_id, meta
        role, content, packed.at_ms, turn_id, meta = turn
        assert role in ROLES, f"a turn came with the role {role!r}"
        packed.role = ROLES.index(role)
        packed.content = PyBytes_AS_STRING(content)
        packed.content_bytes = PyBytes_GET_SIZE(content)
        packed.id_bytes = packed.meta_bytes = -1
        if turn_id is not None:
            packed.id = PyBytes_AS_STRING(turn_id)
            packed.id_bytes = PyBytes_GET_SIZE(turn_id)
        if meta is not None:
            packed.meta = PyBytes_AS_STRING(meta)
            packed.meta_bytes = PyBytes_GET_SIZE(meta)
        self._append(&packed, text_bytes_of(&packed))
        if turn_id is not None:
            self._remember(turn_id)
        self._drop_oldest(self.count - self.window)

    def trim(self):
        """Drop the oldest turns beyond the window."""
        self._drop_oldest(self.count - self.window)

    def free_some(self, Py_ssize_t count):
        """Free about `count` turns, or pages of memory, of a session that is out of use; how many.

        The newest go first, since they lie highest: from there an allocator gives memory back little by little.
        """
        cdef Py_ssize_t freed = 0
        while self._newest != NULL and freed < count:
            freed += _parts(self._newest.turns, self._newest)
            self._unlink(self._newest)
        while self._ids != NULL and freed < count:
            freed += self._shrink_ids(count - freed)
        return freed

    def clear(self):
        """Drop every turn; the session stays."""
        self._drop_oldest(self.count)
        free(self._ids)
        self._ids = NULL

    cdef int append_plain(self, int role, const char *content, Py_ssize_t size, long long at_ms) except -1:
        """Take in a turn without id and meta, and let the oldest go when the window is full."""
        cdef Turn turn
        turn.role = role
        turn.content = content
        turn.content_bytes = size
        turn.at_ms = at_ms
        turn.id_bytes = turn.meta_bytes = -1
        self._append(&turn, role_bytes(role) + size)
        if self.count > self.window:
            self._drop_oldest(self.count - self.window)
        return 0

    # -- reading, while nothing is changed ---------------------------------------------------------

    cdef void seek_newest(self, Py_ssize_t count, Cursor *cursor) noexcept:
        """Put `cursor` in front of the newest `count` turns."""
        cdef Chunk *chunk = self._newest
        cdef const char *end
        cdef Py_ssize_t left = min(count, self.count)
        cursor.left = left
        cursor.bytes_max = 0
        cursor.part = 0
        if left <= 0:
            cursor.left = 0
            return
        while left > chunk.turns:
            cursor.bytes_max += chunk.text_bytes
            left -= chunk.turns
            chunk = chunk.older
        cursor.chunk = chunk
        cursor.at = chunk.start
        cursor.end = chunk.used
        _fetch(chunk, left)
        if left == chunk.turns:
            cursor.bytes_max += chunk.text_bytes
            return
        end = _data(chunk) + chunk.used
        while left:
            end -= length_before(end)
            left -= 1
        cursor.at = <unsigned int> (end - _data(chunk))
        cursor.bytes_max += chunk.used - cursor.at

    cdef bint next_turn(self, Cursor *cursor, Turn *turn) noexcept:
        """The turn behind `cursor`, which moves on; False at the end."""
        if cursor.left == 0:
            return False
        if cursor.at == cursor.end:
            cursor.chunk = cursor.chunk.newer
            cursor.at = cursor.chunk.start
            cursor.end = cursor.chunk.used
        cursor.left -= 1
        cursor.at = _read(cursor.chunk, cursor.at, turn)
        return True

    cdef Turn _turn_of_number(self, long long number) noexcept:
        """The turn of that number, which is in the window."""
        cdef Cursor cursor
        cdef Turn turn
        self.seek_newest(self.seq - number + 1, &cursor)
        self.next_turn(&cursor, &turn)
        return turn

    # -- changes -----------------------------------------------------------------------------------

    cdef int _append(self, const Turn *turn, Py_ssize_t text_bytes) except -1:
        cdef Py_ssize_t size = turn_bytes(turn)
        cdef char *begin
        cdef char *end
        cdef Chunk *chunk
        assert size < LENGTH_MAX, "a turn is larger than any command may send"
        begin = self._room(size + length_bytes(size))
        end = put_turn(begin, turn, size)
        chunk = self._newest
        chunk.used += <unsigned int> (end - begin)
        chunk.turns += 1
        chunk.text_bytes += <unsigned int> text_bytes
        self._text_bytes += text_bytes
        self.count += 1
        self.seq += 1
        return 0

    cdef char *_room(self, Py_ssize_t size) except NULL:
        """Where the next `size` bytes of turns are to be written: the end of the newest chunk."""
        cdef Chunk *chunk = self._newest
        cdef Py_ssize_t held, full, capacity
        if chunk != NULL and chunk.capacity - chunk.used >= size:
            return _data(chunk) + chunk.used
        full = min(max(self._allocated_bytes // CHUNKS_OF_A_SESSION, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)
        if chunk != NULL and chunk.refs == 1:
            held = chunk.used - chunk.start
            if chunk.start * 4 >= chunk.used and chunk.capacity - held >= size:
                memmove(_data(chunk), _data(chunk) + chunk.start, held)
                chunk.start = 0
                chunk.used = <unsigned int> held
                return _data(chunk) + held
            if chunk.used + size <= full:
                capacity = max(chunk.used + size, chunk.capacity + (chunk.capacity >> 1))
                chunk = self._resized(chunk, min(capacity, full))
                if chunk == NULL:
                    raise MemoryError
                return _data(chunk) + chunk.used
            if chunk.capacity - chunk.used > SLACK_BYTES:
                self._resized(chunk, chunk.used)
        self._begin(max(size, min(full, self._allocated_bytes >> 3)))
        return _data(self._newest)

    cdef Chunk *_resized(self, Chunk *chunk, Py_ssize_t capacity) noexcept:
        """The newest chunk, which nobody shares, with that capacity, perhaps at another place; NULL without memory."""
        cdef Chunk *moved
        cdef Py_ssize_t before = _allocated(chunk)
        capacity = _rounded(capacity)
        moved = <Chunk *> realloc(chunk, sizeof(Chunk) + capacity)
        if moved == NULL:
            return NULL
        moved.capacity = <unsigned int> capacity
        self._newest = moved
        if moved.older == NULL:
            self._oldest = moved
        else:
            moved.older.newer = moved
        self._allocated_bytes += _allocated(moved) - before
        return moved

    cdef int _begin(self, Py_ssize_t capacity) except -1:
        """Make a new newest chunk."""
        cdef Chunk *chunk
        capacity = _rounded(capacity)
        chunk = <Chunk *> malloc(sizeof(Chunk) + capacity)
        if chunk == NULL:
            raise MemoryError
        chunk.newer = NULL
        chunk.older = self._newest
        chunk.refs = 1
        chunk.start = chunk.used = chunk.turns = chunk.text_bytes = 0
        chunk.capacity = <unsigned int> capacity
        if self._newest == NULL:
            self._oldest = chunk
        else:
            self._newest.newer = chunk
        self._newest = chunk
        self._allocated_bytes += _allocated(chunk)
        return 0

    cdef void _drop_oldest(self, Py_ssize_t excess) noexcept:
        """Drop `excess` turns, if that is more than none, or all that there are."""
        cdef Chunk *chunk
        cdef Turn turn
        cdef Py_ssize_t text_bytes
        excess = min(excess, self.count)
        while excess > 0:
            chunk = self._oldest
            if excess >= chunk.turns:
                excess -= chunk.turns
                self._unlink(chunk)
                continue
            chunk.start = _read(chunk, chunk.start, &turn)
            text_bytes = text_bytes_of(&turn)
            chunk.turns -= 1
            chunk.text_bytes -= <unsigned int> text_bytes
            self._text_bytes -= text_bytes
            self.count -= 1
            excess -= 1

    cdef void _unlink(self, Chunk *chunk) noexcept:
        """Let the oldest or the newest chunk go with all its turns."""
        self.count -= chunk.turns
        self._text_bytes -= chunk.text_bytes
        self._allocated_bytes -= _allocated(chunk)
        if chunk.newer == NULL:
            self._newest = chunk.older
        else:
            chunk.newer.older = chunk.older
        if chunk.older == NULL:
            self._oldest = chunk.newer
        else:
            chunk.older.newer = chunk.newer
        _release(chunk)

    # -- ids ---------------------------------------------------------------------------------------

    cdef int _remember(self, object turn_id) except -1:
        """The newest turn has that id."""
        if self._ids == NULL or is_full(self._ids):
            self._rebuild_ids()
        put_id(self._ids, <unsigned long long> hash(turn_id), self.seq)
        return 0

    cdef int _rebuild_ids(self) except -1:
        """Make the table anew, for the ids still in the window and a third as many again at least."""
        cdef long long gone = self.seq - self.count
        cdef Py_ssize_t size = ID_SLOTS_MIN, live = put_live_ids(NULL, self._ids, gone)
        cdef IdTable *ids
        while size < 2 * (live + 1):
            size *= 2
        ids = <IdTable *> calloc(1, table_bytes(size))
        if ids == NULL:
            raise MemoryError
        ids.mask = size - 1
        put_live_ids(ids, self._ids, gone)
        free(self._ids)
        self._ids = ids
        return 0

    cdef Py_ssize_t _shrink_ids(self, Py_ssize_t pages) noexcept:
        """Give back some pages of the table, which is out of use; how many."""
        cdef Py_ssize_t left = self._ids.mask + 1 - (pages << PAGE_SHIFT) // <Py_ssize_t> sizeof(IdSlot)
        cdef IdTable *ids = NULL
        if left <= 0:
            pages = max(table_bytes(self._ids.mask + 1) >> PAGE_SHIFT, 1)
            free(self._ids)
        else:
            ids = <IdTable *> realloc(self._ids, table_bytes(left))
            if ids == NULL:
                free(self._ids)
            else:
                ids.mask = left - 1
        self._ids = ids
        return pages


# -- a snapshot --------------------------------------------------------------------------------------


cdef class Turns:
    """Turns of a session as they were at one time: a sequence of the tuples that `Conversation.newest` gives."""

    def __dealloc__(self):
        cdef Py_ssize_t at
        for at in range(self._part_count):
            _release(self._parts[at].chunk)
        free(self._parts)

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef Py_ssize_t index
        for index in range(0, self.count, 64):
            yield from self[index:index + 64]

    def __getitem__(self, place):
        cdef Py_ssize_t start, stop, step, index
        cdef Cursor cursor
        cdef Turn turn
        cdef list turns = []
        if not isinstance(place, slice):
            index = place + self.count if place < 0 else place
            if not 0 <= index < self.count:
                raise IndexError("turn index out of range")
            self.seek(index, &cursor)
            self.next_turn(&cursor, &turn)
            return _tuple(&turn)
        start, stop, step = place.indices(self.count)
        if step != 1:
            return list(self)[place]
        if start < stop:
            self.seek(start, &cursor)
            for index in range(start, stop):
                self.next_turn(&cursor, &turn)
                turns.append(_tuple(&turn))
        return turns

    def free_some(self, Py_ssize_t count):
        """Free about `count` turns, or pages of memory, of a snapshot that is out of use; how many."""
        cdef Py_ssize_t freed = 0
        cdef Part *part
        while self._part_count > 0 and freed < count:
            self._part_count -= 1
            part = &self._parts[self._part_count]
            freed += _parts(self.count - part.first, part.chunk)
            self.count = part.first
            _release(part.chunk)
        return freed

    def memory_bytes(self):
        """Bytes of memory that it holds, shared or not."""
        cdef Py_ssize_t size = self.__sizeof__(), at
        for at in range(self._part_count):
            size += _allocated(self._parts[at].chunk) + <Py_ssize_t> sizeof(Part)
        return size

    cdef void seek(self, Py_ssize_t index, Cursor *cursor) noexcept:
        """Put `cursor` in front of turn `index`."""
        cdef Py_ssize_t low = 0, high = self._part_count, middle
        cdef Turn turn
        cursor.left = max(self.count - index, 0)
        cursor.bytes_max = 0
        if cursor.left == 0:
            return
        while high - low > 1:
            middle = (low + high) // 2
            if self._parts[middle].first <= index:
                low = middle
            else:
                high = middle
        cursor.part = low
        cursor.chunk = self._parts[low].chunk
        cursor.at = self._parts[low].start
        cursor.end = self._parts[low].end
        for _ in range(index - self._parts[low].first):
            cursor.at = _read(cursor.chunk, cursor.at, &turn)

    cdef bint next_turn(self, Cursor *cursor, Turn *turn) noexcept:
        """The turn behind `cursor`, which moves on; False at the end."""
        if cursor.left == 0:
            return False
        if cursor.at == cursor.end:
            cursor.part += 1
            cursor.chunk = self._parts[cursor.part].chunk
            cursor.at = self._parts[cursor.part].start
            cursor.end = self._parts[cursor.part].end
        cursor.left -= 1
        cursor.at = _read(cursor.chunk, cursor.at, turn)
        return True


cdef Turns _snapshot(Conversation conversation, Py_ssize_t count):
    cdef Turns turns = Turns.__new__(Turns)
    cdef Cursor cursor
    cdef Chunk *chunk
    cdef Part *part
    cdef Py_ssize_t parts = 1
    conversation.seek_newest(count, &cursor)
    if cursor.left == 0:
        return turns
    chunk = cursor.chunk
    while chunk.newer != NULL:
        chunk = chunk.newer
        parts += 1
    turns._parts = <Part *> malloc(parts * sizeof(Part))
    if turns._parts == NULL:
        raise MemoryError
    chunk = cursor.chunk
    while chunk != NULL:
        part = &turns._parts[turns._part_count]
        part.chunk = chunk
        part.start = chunk.start
        part.end = chunk.used
        part.first = turns.count
        turns.count += chunk.turns
        chunk.refs += 1
        turns._part_count += 1
        chunk = chunk.newer
    # The first chunk may begin with turns that are not wanted.
    turns._parts[0].start = cursor.at
    for parts in range(1, turns._part_count):
        turns._parts[parts].first -= turns.count - cursor.left
    turns.count = cursor.left
    return turns
