"""The scan index, natively: the twin of `names.PlainNameIndex`, which holds the algorithm, the guarantees and the why.

A bucket is an array of references to the names, which belong to a dict of the store as well; nothing else is kept of
a name, as its hash lies in the object. Tables, pages and cursors are those of the reference, to the bit.
"""

cimport cython
from cpython.object cimport PyObject, PyObject_Hash
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcmp

from amemdb.limits import REPLY_ELEMENTS_MAX

cdef extern from "Python.h" nogil:
    const char *PyBytes_AS_STRING(PyObject *text)
    Py_ssize_t Py_SIZE(PyObject *text)

cdef enum:
    FILL = 12
    HASH_BITS = 64
    EMPTY_BUCKETS_MAX = 512
    STEP = 4  # places by which a bucket grows and shrinks: what fits the sizes in which memory is given out

cdef Py_ssize_t COUNT_MAX = REPLY_ELEMENTS_MAX


cdef inline unsigned long long position_of(PyObject *name) noexcept:
    return <unsigned long long> PyObject_Hash(<object> name)  # of bytes, which have one


@cython.final
@cython.no_gc  # references to bytes make no cycle
cdef class NameIndex:
    """A set of names that can be scanned by pages. Add a name once, discard it once."""

    def __cinit__(self):
        open_table(&self.coarse, 1)
        self.coarse.count = 1

    def __dealloc__(self):
        self.free_some(self.count + 1)
        free(self.coarse.buckets)
        free(self.fine.buckets)
        free(self.found)

    def __len__(self):
        return self.count

    def free_some(self, Py_ssize_t count):
        """Free about `count` names of an index that is out of use; how many they were."""
        cdef Py_ssize_t freed = 0
        cdef Table *table
        while freed < count and (self.fine.count or self.coarse.count):
            table = &self.fine if self.fine.count else &self.coarse
            table.count -= 1
            freed += table.buckets[table.count].count
            self.count -= table.buckets[table.count].count
            self.held_bytes -= bucket_bytes(&table.buckets[table.count])
            free_bucket(&table.buckets[table.count])
        return freed

    def memory_bytes(self):
        """Bytes of memory that the index takes, without the names."""
        cdef Py_ssize_t places = self.found_room * <Py_ssize_t> sizeof(Place)
        return self.held_bytes + (self.coarse.room + self.fine.room) * <Py_ssize_t> sizeof(Bucket) + places

    def walked_bytes(self):
        """The same, counted anew."""
        cdef Py_ssize_t at, held = self.held_bytes
        self.held_bytes = 0
        for at in range(self.coarse.count):
            self.held_bytes += bucket_bytes(&self.coarse.buckets[at])
        for at in range(self.fine.count):
            self.held_bytes += bucket_bytes(&self.fine.buckets[at])
        walked = self.memory_bytes()
        self.held_bytes = held
        return walked

    def held(self, bytes name not None):
        """The object that was added as `name`, which must be there."""
        cdef unsigned long long position = position_of(<PyObject *> name)
        cdef Bucket *bucket = self._bucket(position)
        cdef Py_ssize_t at = place_in(bucket, name, position)
        if at < 0:
            raise ValueError("the scan index does not hold this name")
        return <object> bucket.names[at]

    def clear(self):
        """Forget every name."""
        self.free_some(self.count + 1)
        self.coarse.count = 1
        self.fine.count = self.level = self.split = 0

    # -- changes -----------------------------------------------------------------------------------

    def add(self, bytes name not None):
        """Add `name`, which must not be there yet."""
        self.add_name(name)

    cdef int add_name(self, bytes name) except -1:
        """Add `name`, which must not be there yet."""
        self.held_bytes += put(self._bucket(position_of(<PyObject *> name)), <PyObject *> name)
        Py_INCREF(name)
        self.count += 1
        if self.count > FILL * self._buckets():
            self._grow()
        return 0

    def discard(self, bytes name not None):
        """Remove `name`, which must be there."""
        cdef unsigned long long position = position_of(<PyObject *> name)
        cdef Bucket *bucket = self._bucket(position)
        cdef Py_ssize_t at = place_in(bucket, name, position), buckets
        cdef PyObject *held
        if at < 0:
            raise ValueError("the scan index does not hold this name")
        held = bucket.names[at]
        bucket.count -= 1
        bucket.names[at] = bucket.names[bucket.count]
        if bucket.room - bucket.count > 2 * STEP:
            self.held_bytes += resize(bucket, bucket.count + STEP)
        Py_DECREF(<object> held)
        self.count -= 1
        buckets = self._buckets()
        if buckets > 1 and self.count < FILL // 4 * buckets:
            self._shrink()

    cdef Py_ssize_t _buckets(self) noexcept:
        """How many buckets are in use."""
        return self.fine.count + self.coarse.count - self.split

    cdef int _grow(self) except -1:
        """Split one bucket."""
        cdef unsigned long long bit
        cdef Bucket *bucket
        cdef Bucket *halves
        cdef Py_ssize_t high, index
        if self.split == self.coarse.count:
            self.level += 1
            free(self.coarse.buckets)
            self.coarse = self.fine
            self.fine.buckets = NULL
            self.fine.count = self.fine.room = self.split = 0
        open_table(&self.fine, self.fine.count + 2)
        bucket = &self.coarse.buckets[self.split]
        halves = &self.fine.buckets[self.fine.count]
        bit = <unsigned long long> 1 << (HASH_BITS - 1 - self.level)
        high = 0
        for index in range(bucket.count):
            high += (position_of(bucket.names[index]) & bit) != 0
        self.held_bytes += resize(&halves[0], bucket.count - high) + resize(&halves[1], high)
        for index in range(bucket.count):
            self.held_bytes += put(&halves[(position_of(bucket.names[index]) & bit) != 0], bucket.names[index])
        self.held_bytes -= bucket_bytes(bucket)
        free(bucket.names)
        bucket.names = NULL
        bucket.count = bucket.room = 0
        self.fine.count += 2
        self.split += 1
        return 0

    cdef int _shrink(self) except -1:
        """Join two buckets."""
        cdef Bucket *low
        cdef Bucket *high
        cdef Py_ssize_t index
        if self.split == 0:
            self.level -= 1
            free(self.fine.buckets)
            self.fine = self.coarse
            self.coarse.buckets = NULL
            self.coarse.count = self.coarse.room = 0
            open_table(&self.coarse, self.fine.count // 2)
            self.coarse.count = self.split = self.fine.count // 2
        high = &self.fine.buckets[self.fine.count - 1]
        low = high - 1
        for index in range(high.count):
            self.held_bytes += put(low, high.names[index])
        self.held_bytes -= bucket_bytes(high)
        self.split -= 1
        self.coarse.buckets[self.split] = low[0]
        free(high.names)
        low.names = high.names = NULL
        low.count = low.room = high.count = high.room = 0
        self.fine.count -= 2
        return 0

    # -- reading -----------------------------------------------------------------------------------

    def page(self, unsigned long long cursor, Py_ssize_t count_max):
        """The next cursor (0 at the end) and at most `count_max` names from `cursor` on."""
        cdef unsigned long long position = cursor, end, cut
        cdef Py_ssize_t empty = 0, found, room, index
        cdef list names = []
        count_max = min(count_max, COUNT_MAX)
        while empty < EMPTY_BUCKETS_MAX:
            found = self._gather(position, 0, &end)
            room = count_max - len(names)
            if found > room:
                cut = self.found[room].position
                if self.found[0].position == cut:  # equal hashes: all of them, or none
                    if names:
                        return cut, names
                    cut += 1
                for index in range(found):
                    if self.found[index].position >= cut and cut:
                        break
                    names.append(<object> self.found[index].name)
                return cut, names
            for index in range(found):
                names.append(<object> self.found[index].name)
            empty += found == 0
            position = end
            if end == 0:
                return 0, names
            if len(names) == count_max:
                return position, names
        return position, names

    def from_position(self, unsigned long long cursor):
        """All names once, beginning at `cursor` and wrapping round: where a random start finds its name.

        The index must not change while this runs.
        """
        cdef unsigned long long position = cursor, end
        cdef Py_ssize_t found, index
        cdef bint wrapped = False
        while not wrapped or position < cursor:
            found = self._gather(position, cursor if wrapped else 0, &end)
            yield from [<object> self.found[index].name for index in range(found)]
            position = end
            if end == 0:
                if wrapped:
                    return
                wrapped = True

    cdef Bucket *_bucket(self, unsigned long long position) noexcept:
        cdef Py_ssize_t prefix = position >> (HASH_BITS - self.level) if self.level else 0
        if prefix < self.split:
            return &self.fine.buckets[position >> (HASH_BITS - 1 - self.level)]
        return &self.coarse.buckets[prefix]

    cdef Py_ssize_t _gather(
        self, unsigned long long position, unsigned long long until, unsigned long long *end
    ) except -1:
        """Fill `found` with the names of the bucket of `position` from there on, and before `until` unless that is 0.

        They are in order; how many they are, and where the bucket ends, 0 for the last one.
        """
        cdef Bucket *bucket = self._bucket(position)
        cdef int bits = self.level
        cdef Py_ssize_t found = 0, index
        cdef unsigned long long place
        cdef Place *grown
        if (position >> (HASH_BITS - bits) if bits else 0) < <unsigned long long> self.split:
            bits += 1
        end[0] = ((position >> (HASH_BITS - bits)) + 1) << (HASH_BITS - bits) if bits else 0
        if bucket.count > self.found_room:
            grown = <Place *> realloc(self.found, bucket.count * sizeof(Place))
            if grown == NULL:
                raise MemoryError
            self.found, self.found_room = grown, bucket.count
        for index in range(bucket.count):
            place = position_of(bucket.names[index])
            if place >= position and (until == 0 or place < until):
                self.found[found].position = place
                self.found[found].name = bucket.names[index]
                found += 1
        if found > 1:
            qsort(self.found, found, sizeof(Place), in_order)
        return found


cdef int in_order(const void *one, const void *other) noexcept nogil:
    """By position, then by name."""
    cdef const Place *a = <const Place *> one
    cdef const Place *b = <const Place *> other
    cdef Py_ssize_t a_bytes, b_bytes
    cdef int order
    if a.position != b.position:
        return -1 if a.position < b.position else 1
    a_bytes, b_bytes = Py_SIZE(a.name), Py_SIZE(b.name)
    order = memcmp(PyBytes_AS_STRING(a.name), PyBytes_AS_STRING(b.name), min(a_bytes, b_bytes))
    return order if order else (a_bytes > b_bytes) - (a_bytes < b_bytes)


# -- tables and buckets ----------------------------------------------------------------------------


cdef int open_table(Table *table, Py_ssize_t count) except -1:
    """Have room for `count` buckets, new ones being empty."""
    cdef Py_ssize_t room = table.room, index
    cdef Bucket *buckets
    if count <= room:
        return 0
    room = max(count, room + room // 2)
    buckets = <Bucket *> realloc(table.buckets, room * sizeof(Bucket))
    if buckets == NULL:
        raise MemoryError
    for index in range(table.room, room):
        buckets[index].names = NULL
        buckets[index].count = buckets[index].room = 0
    table.buckets, table.room = buckets, room
    return 0


cdef inline Py_ssize_t bucket_bytes(const Bucket *bucket) noexcept nogil:
    """What the array takes of an allocator that adds 8 bytes; its room is such that no more are lost."""
    return 0 if bucket.names == NULL else (bucket.room + 1) * <Py_ssize_t> sizeof(PyObject *)


cdef Py_ssize_t resize(Bucket *bucket, Py_ssize_t count) except? -1:
    """Have room for `count` names, and not much more; how many bytes more that takes."""
    cdef Py_ssize_t room = (count + STEP) // STEP * STEP - 1, before = bucket_bytes(bucket)
    cdef PyObject **names = <PyObject **> realloc(bucket.names, room * sizeof(PyObject *))
    if names == NULL:
        raise MemoryError
    bucket.names, bucket.room = names, room
    return bucket_bytes(bucket) - before


cdef inline Py_ssize_t put(Bucket *bucket, PyObject *name) except? -1:
    cdef Py_ssize_t more = 0
    if bucket.count == bucket.room:
        more = resize(bucket, bucket.count + 1)
    bucket.names[bucket.count] = name
    bucket.count += 1
    return more


cdef Py_ssize_t place_in(const Bucket *bucket, bytes name, unsigned long long position) noexcept:
    """Where the bucket holds `name`; -1 if it does not."""
    cdef Py_ssize_t at
    for at in range(bucket.count):  # most often it is the very object that was added: no other has to be looked at
        if bucket.names[at] == <PyObject *> name:
            return at
    for at in range(bucket.count):
        if position_of(bucket.names[at]) == position and <object> bucket.names[at] == name:
            return at
    return -1


cdef void free_bucket(Bucket *bucket) noexcept:
    cdef Py_ssize_t at
    for at in range(bucket.count):
        Py_DECREF(<object> bucket.names[at])
    free(bucket.names)
    bucket.names = NULL
    bucket.count = bucket.room = 0
