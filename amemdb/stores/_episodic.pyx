"""One agent's events, packed: the twin of `episodic.PlainEventLog`, which says what each method means.

What differs is where events lie (see `_timeline`), that there is no list of a type's events, and that an id is
remembered with the key of its event, as the event is no object.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

from amemdb.stores._event cimport Fields, Key, before, fill
from amemdb.stores._timeline cimport Timeline

from amemdb.limits import EVENT_IDS_REMEMBERED, INT64_MIN as _INT64_MIN

cdef enum:
    ID_BYTES = 200  # what an id that is remembered takes, about

cdef Py_ssize_t IDS_REMEMBERED = EVENT_IDS_REMEMBERED
cdef long long INT64_MIN = _INT64_MIN


@cython.final
@cython.no_gc  # a dict of bytes and numbers makes no cycle
cdef class EventLog:
    """One agent's events; see the reference."""

    def __cinit__(self):
        self.next_seq = 1
        self.events = Timeline()

    def __len__(self):
        return self.events.count

    def memory_bytes(self):
        """Bytes of memory that the log has to itself, about."""
        cdef Py_ssize_t ids = 0 if self.ids is None else self.ids.__sizeof__() + len(self.ids) * ID_BYTES
        return self.__sizeof__() + self.events.__sizeof__() + self.events.memory_bytes() + ids

    def walked_bytes(self):
        return self.memory_bytes() - self.events.memory_bytes() + self.events.walked_bytes()

    def free_some(self, Py_ssize_t count):
        return self.events.free_some(count)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def has_policy(self):
        return self.maxlen > 0 or self.maxage_ms > 0

    cpdef long long live_from_ms(self, long long now_ms) noexcept:
        return now_ms - self.maxage_ms if self.maxage_ms else INT64_MIN

    def dead_count(self, long long now_ms):
        cdef Key key
        key.at_ms = self.live_from_ms(now_ms)
        key.seq = INT64_MIN
        if not self.events.count or not before(self.events.oldest_key(), key):
            return 0
        return self.events.count_before_key(key)

    def holds_id(self, bytes event_id, long long now_ms):
        key = None if self.ids is None else self.ids.get(event_id)
        return key is not None and key[0] >= self.live_from_ms(now_ms)

    def due_at_ms(self):
        if not self.maxage_ms or not self.events.count:
            return 0
        return self.events.oldest_key().at_ms + self.maxage_ms + 1

    def newest_between(self, bytes event_type, tuple low, tuple high, Py_ssize_t count_max):
        return self.events.newest_between(low, high, count_max, event_type)

    def count_between(self, bytes event_type, tuple low, tuple high):
        return self.events.count_between(low, high, event_type)

    # -- changes -----------------------------------------------------------------------------------

    def add(
        self, long long at_ms, long long seq, bytes event_type, bytes content, bytes metadata, bytes event_id
    ):
        cdef Fields event
        event.key.at_ms, event.key.seq = at_ms, seq
        fill(&event, event_type, content, metadata, event_id)
        self.events.put(&event)
        if seq >= self.next_seq:
            self.next_seq = seq + 1
        if self.ids is not None or event_id is not None:
            self._remember(at_ms, seq, event_id)

    cdef bint plain(self) noexcept:
        """Whether to log an event without an id is to append it and nothing else: no policy, no ids remembered."""
        return self.maxlen == 0 and self.maxage_ms == 0 and self.ids is None

    cdef int log_plain(
        self, const char *type, Py_ssize_t type_bytes, const char *content, Py_ssize_t content_bytes, long long at_ms
    ) except -1:
        """`add` with the next number, without metadata or id, of a log that is `plain`."""
        cdef Fields event
        event.key.at_ms, event.key.seq = at_ms, self.next_seq
        event.type, event.type_bytes = type, type_bytes
        event.content, event.content_bytes = content, content_bytes
        event.metadata = event.id = NULL
        event.metadata_bytes = event.id_bytes = 0
        self.events.put(&event)
        self.next_seq += 1
        return 0

    def trim(self, Py_ssize_t count):
        cdef tuple event
        if self.ids is not None:
            # Of those that go, only the newest of all can be known by an id.
            for event in self.events.slice(max(0, self.events.count - IDS_REMEMBERED), count):
                self._forget(event[0], event[1], event[5])
        return self.events.drop(count)

    def clear(self):
        self.ids = None
        return self.events.drop(self.events.count)

    cdef int _remember(self, long long at_ms, long long seq, bytes event_id) except -1:
        cdef Fields beyond
        cdef Key key
        cdef bytes beyond_id
        if self.events.count > IDS_REMEMBERED:
            self.events.nth_newest_fields(IDS_REMEMBERED, &beyond)
            key.at_ms, key.seq = at_ms, seq
            if not before(beyond.key, key):
                return 0
            if beyond.id != NULL:
                self._forget(beyond.key.at_ms, beyond.key.seq, PyBytes_FromStringAndSize(beyond.id, beyond.id_bytes))
        if event_id is not None:
            if self.ids is None:
                self.ids = {}
            self.ids[event_id] = (at_ms, seq)
        return 0

    def _forget(self, at_ms, seq, event_id):
        if event_id is not None and self.ids is not None and self.ids.get(event_id) == (at_ms, seq):
            del self.ids[event_id]
            if not self.ids:
                self.ids = None
