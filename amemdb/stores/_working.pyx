"""A session's notes: the compiled twin of `amemdb.stores.working.PlainNotes`.

A note is one block of memory: a header, its expiry if it has one, key and value. So a value that is set again costs
at most its own copy, whatever else the session holds, and a session of many notes can be let go of bit by bit.

`places` are the blocks in the order in which their keys came, as a dict of Python has it. While there are at most
`SCANNED_MAX` of them, a key is looked for by its hash, which is in the block; beyond that `slots`, twice as many, say
where it lies: open addressing, a place and one more in each, 0 in those that were never used. A deleted note leaves
its place empty; what is left is moved together when places run out, and the slots are filled anew.

Keys come from clients, so the hash is SipHash-1-3 with a key that Python drew for this process: nobody can choose
keys that meet in one slot. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil


cdef enum:
    SCANNED_MAX = 8
    KEY_BYTES_MAX = 0xFFFF      # commands allow 1,024
    VALUE_BYTES_MAX = 0xF0000000  # commands allow an eighth of that
    ALLOCATOR_BYTES = 8         # of its own for each block
    PAGE_SHIFT = 12             # to give pages back costs more than to free notes

ctypedef unsigned long long uint64

cdef uint64 _KEY_0 = <uint64> hash(b"the first half of the hash's key")
cdef uint64 _KEY_1 = <uint64> hash(b"and the second half")


# -- hashing -------------------------------------------------------------------------------------------


cdef inline uint64 _turned(uint64 word, int bits) noexcept nogil:
    return word << bits | word >> (64 - bits)


cdef inline void _round(uint64 *v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = _turned(v[1], 13) ^ v[0]
    v[3] = _turned(v[3], 16) ^ v[2]
    v[0] = _turned(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = _turned(v[1], 17) ^ v[2]
    v[3] = _turned(v[3], 21) ^ v[0]
    v[2] = _turned(v[2], 32)


cdef unsigned int _hash(const char *key, Py_ssize_t size) noexcept nogil:
    cdef uint64[4] v
    cdef uint64 word
    cdef Py_ssize_t left = size
    v[0] = _KEY_0 ^ 0x736F6D6570736575ULL
    v[1] = _KEY_1 ^ 0x646F72616E646F6DULL
    v[2] = _KEY_0 ^ 0x6C7967656E657261ULL
    v[3] = _KEY_1 ^ 0x7465646279746573ULL
    while left >= 8:
        memcpy(&word, key, 8)
        v[3] ^= word
        _round(v)
        v[0] ^= word
        key += 8
        left -= 8
    word = 0
    memcpy(&word, key, left)
    word |= <uint64> size << 56
    v[3] ^= word
    _round(v)
    v[0] ^= word
    v[2] ^= 0xFF
    _round(v)
    _round(v)
    _round(v)
    word = v[0] ^ v[1] ^ v[2] ^ v[3]
    return <unsigned int> (word ^ word >> 32)


# -- one note --------------------------------------------------------------------------------------------


cdef inline Py_ssize_t _note_bytes(Py_ssize_t key_bytes, Py_ssize_t value_bytes, bint expires) noexcept nogil:
    return <Py_ssize_t> sizeof(Note) + (8 if expires else 0) + key_bytes + value_bytes


cdef inline Py_ssize_t _allocated(Py_ssize_t size) noexcept nogil:
    """What a block of `size` bytes takes of an allocator that works in steps of sixteen."""
    return max(size + ALLOCATOR_BYTES + 15, 47) & ~15


cdef inline Py_ssize_t _allocated_note(const Note *note) noexcept nogil:
    return _allocated(_note_bytes(note.key_bytes, note.value_bytes, note.expires))


cdef inline const char *_key(const Note *note) noexcept nogil:
    return <const char *> note + sizeof(Note) + (8 if note.expires else 0)


cdef inline const char *_value(const Note *note) noexcept nogil:
    return _key(note) + note.key_bytes


cdef inline long long _expiry(const Note *note) noexcept nogil:
    cdef long long expire_at_ms = 0
    if note.expires:
        memcpy(&expire_at_ms, <const char *> note + sizeof(Note), 8)
    return expire_at_ms


cdef bytes _key_object(const Note *note):
    return PyBytes_FromStringAndSize(_key(note), note.key_bytes)


cdef bytes _value_object(const Note *note):
    return PyBytes_FromStringAndSize(_value(note), note.value_bytes)


# -- a session's notes -----------------------------------------------------------------------------------


cdef class Notes:
    """The notes of one session by key."""

    def __cinit__(self):
        self._mask = -1

    def __dealloc__(self):
        cdef Py_ssize_t place
        for place in range(self._used):
            free(self._places[place])
        free(self._places)
        free(self._slots)

    def __len__(self):
        return self.count

    def get(self, bytes key not None):
        """Value and `expire_at_ms` of a note; None if there is none of that key."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef const char *name = PyBytes_AS_STRING(key)
        cdef Py_ssize_t place = self._place_of(_hash(name, size), name, size)
        if place < 0:
            return None
        return _value_object(self._places[place]), _expiry(self._places[place])

    def items(self):
        """Every key with what `get` gives for it, in the order in which the keys first came."""
        cdef Py_ssize_t place
        cdef Note *note
        cdef list found = []
        for place in range(self._used):
            note = self._places[place]
            if note != NULL:
                found.append((_key_object(note), (_value_object(note), _expiry(note))))
        return found

    def live_items(self, long long now_ms):
        """Keys and values of the notes whose time has not passed, in the same order."""
        cdef Py_ssize_t place
        cdef Note *note
        cdef list found = []
        for place in range(self._used):
            note = self._places[place]
            if note != NULL and not 0 < _expiry(note) <= now_ms:
                found.append((_key_object(note), _value_object(note)))
        return found

    def expiries(self):
        """Key and `expire_at_ms` of each note with an expiry of its own."""
        cdef Py_ssize_t place
        cdef Note *note
        cdef list found = []
        if self.expiring:
            for place in range(self._used):
                note = self._places[place]
                if note != NULL and note.expires:
                    found.append((_key_object(note), _expiry(note)))
        return found

    def set(self, bytes key not None, bytes value not None, long long expire_at_ms):
        """Set a note; `expire_at_ms` that the note of that key had before, 0 without."""
        cdef const char *name = PyBytes_AS_STRING(key)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef Py_ssize_t place = self._place_of(_hash(name, size), name, size) if self.expiring else -1
        cdef long long before = _expiry(self._places[place]) if place >= 0 else 0
        self._set(name, size, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), expire_at_ms, False)
        return before

    def delete(self, bytes key not None):
        """Delete a note, which must be there; `expire_at_ms` that it had, 0 without."""
        cdef const char *name = PyBytes_AS_STRING(key)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef Py_ssize_t place = self._place_of(_hash(name, size), name, size)
        cdef long long before
        cdef Note *note
        if place < 0:
            raise KeyError(key)
        note = self._places[place]
        before = _expiry(note)
        self._places[place] = NULL
        self._allocated_bytes -= _allocated_note(note)
        self.expiring -= note.expires
        self.count -= 1
        free(note)
        return before

    def free_some(self, Py_ssize_t count):
        """Free about `count` notes, or pages of memory, of those that are out of use; how many."""
        cdef Py_ssize_t freed = 0
        cdef Note *note
        while self._used > 0 and freed < count:
            self._used -= 1
            note = self._places[self._used]
            if note != NULL:
                freed += 1 + (note.value_bytes >> PAGE_SHIFT)
                self._allocated_bytes -= _allocated_note(note)
                self.expiring -= note.expires
                self.count -= 1
                free(note)
        return freed

    def memory_bytes(self):
        """Bytes of memory that the notes have to themselves."""
        return self.__sizeof__() + self._allocated_bytes

    def walked_bytes(self):
        """The same, counted anew."""
        cdef Py_ssize_t place, slots = 0 if self._slots == NULL else self._mask + 1
        cdef Py_ssize_t size = self._capacity * <Py_ssize_t> sizeof(Note *) + slots * <Py_ssize_t> sizeof(unsigned int)
        for place in range(self._used):
            if self._places[place] != NULL:
                size += _allocated_note(self._places[place])
        return self.__sizeof__() + size

    # -- what native code calls --------------------------------------------------------------------------

    cdef int set_plain(
        self, const char *key, Py_ssize_t key_bytes, const char *value, Py_ssize_t value_bytes
    ) except -1:
        """Set a note without expiry: 1. If there is one with an expiry, nothing is done: 0."""
        return self._set(key, key_bytes, value, value_bytes, 0, True)

    cdef bint find(
        self, const char *key, Py_ssize_t key_bytes, const char **value, Py_ssize_t *value_bytes, long long *expire_at_ms
    ) noexcept:
        """Whether there is a note of that key; then its value, which stays until the notes change, and its expiry."""
        cdef Py_ssize_t place = self._place_of(_hash(key, key_bytes), key, key_bytes)
        cdef Note *note
        if place < 0:
            return False
        note = self._places[place]
        value[0] = _value(note)
        value_bytes[0] = note.value_bytes
        expire_at_ms[0] = _expiry(note)
        return True

    cdef void fetch(self, const char *key, Py_ssize_t key_bytes) noexcept:
        """Have the note of that key, if there is one, fetched from memory: places and slots have been."""
        cdef Py_ssize_t place
        cdef unsigned int slot
        if self._slots == NULL:
            for place in range(self._used):
                __builtin_prefetch(self._places[place])
            return
        slot = self._slots[<Py_ssize_t> _hash(key, key_bytes) & self._mask]
        if slot:
            __builtin_prefetch(self._places[slot - 1])
            __builtin_prefetch(<const char *> self._places[slot - 1] + 64)

    # -- places and slots ----------------------------------------------------------------------------------

    cdef Py_ssize_t _place_of(self, unsigned int hashed, const char *key, Py_ssize_t key_bytes) noexcept:
        """Where the note of that key lies; -1 if there is none."""
        cdef Py_ssize_t place, slot
        cdef Note *note
        if self._slots == NULL:
            for place in range(self._used):
                note = self._places[place]
                if note != NULL and note.hash == hashed and note.key_bytes == key_bytes:
                    if memcmp(_key(note), key, key_bytes) == 0:
                        return place
            return -1
        slot = <Py_ssize_t> hashed & self._mask
        while self._slots[slot] != 0:
            place = <Py_ssize_t> self._slots[slot] - 1
            note = self._places[place]
            if note != NULL and note.hash == hashed and note.key_bytes == key_bytes:
                if memcmp(_key(note), key, key_bytes) == 0:
                    return place
            slot = (slot + 1) & self._mask
        return -1

    cdef int _set(
        self,
        const char *key,
        Py_ssize_t key_bytes,
        const char *value,
        Py_ssize_t value_bytes,
        long long expire_at_ms,
        bint plain,
    ) except -1:
        cdef unsigned int hashed = _hash(key, key_bytes)
        cdef Py_ssize_t place = self._place_of(hashed, key, key_bytes)
        cdef Note *note = NULL if place < 0 else self._places[place]
        cdef Note *made
        cdef Py_ssize_t size = _note_bytes(key_bytes, value_bytes, expire_at_ms != 0), before = 0
        cdef char *at
        assert key_bytes <= KEY_BYTES_MAX and value_bytes <= VALUE_BYTES_MAX, "a note is larger than a command may send"
        if note != NULL:
            if plain and note.expires:
                return 0
            before = _allocated_note(note)
        elif self._used == self._capacity:
            self._make_room()
        if note != NULL and before == _allocated(size):
            made = note  # the new note fits in the block of the old one
        else:
            made = <Note *> malloc(_allocated(size) - ALLOCATOR_BYTES)
            if made == NULL:
                raise MemoryError
        self.expiring += (expire_at_ms != 0) - (0 if note == NULL else note.expires)
        made.hash = hashed
        made.value_bytes = <unsigned int> value_bytes
        made.key_bytes = <unsigned short> key_bytes
        made.expires = expire_at_ms != 0
        at = <char *> made + sizeof(Note)
        if made.expires:
            memcpy(at, &expire_at_ms, 8)
            at += 8
        memcpy(at, key, key_bytes)
        memcpy(at + key_bytes, value, value_bytes)
        self._allocated_bytes += _allocated(size) - before
        if note == NULL:
            place = self._used
            self._used += 1
            self.count += 1
            self._places[place] = made
            if self._slots != NULL:
                self._enter(place)
        elif made != note:
            self._places[place] = made
            free(note)
        return 1

    cdef int _make_room(self) except -1:
        """Have at least one place more at the end."""
        cdef Py_ssize_t place, kept = 0, capacity, slots = 0
        cdef Note **places
        cdef unsigned int *fresh = NULL
        if self._used > 0 and self.count * 4 <= self._used * 3:
            # A quarter of the places or more are empty: they will do, once the others are moved together.
            capacity = self._capacity
        else:
            capacity = max(4, self._capacity + max(self._capacity >> 2, 2))
        if capacity > SCANNED_MAX:
            slots = 16
            while slots * 3 < capacity * 4:
                slots *= 2
        # All that may fail comes first.
        if slots != self._mask + 1:
            fresh = <unsigned int *> calloc(slots, sizeof(unsigned int))
            if fresh == NULL:
                raise MemoryError
        if capacity > self._capacity:
            places = <Note **> realloc(self._places, capacity * sizeof(Note *))
            if places == NULL:
                free(fresh)
                raise MemoryError
            self._allocated_bytes += (capacity - self._capacity) * <Py_ssize_t> sizeof(Note *)
            self._places = places
            self._capacity = capacity
        if fresh != NULL:
            free(self._slots)
            self._allocated_bytes += (slots - self._mask - 1) * <Py_ssize_t> sizeof(unsigned int)
            self._slots = fresh
            self._mask = slots - 1
        elif self.count == self._used:
            return 0
        elif slots:
            memset(self._slots, 0, slots * sizeof(unsigned int))
        for place in range(self._used):
            if self._places[place] != NULL:
                self._places[kept] = self._places[place]
                if self._slots != NULL:
                    self._enter(kept)
                kept += 1
        self._used = kept
        return 0

    cdef void _enter(self, Py_ssize_t place) noexcept:
        """Give the note at `place` its slot."""
        cdef Py_ssize_t slot = <Py_ssize_t> self._places[place].hash & self._mask
        while self._slots[slot] != 0:
            slot = (slot + 1) & self._mask
        self._slots[slot] = <unsigned int> place + 1
