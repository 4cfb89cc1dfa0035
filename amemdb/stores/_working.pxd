"""Notes of a session, a block of bytes each. See `_working.pyx`."""

cdef struct Note:
    unsigned int hash
    unsigned int value_bytes
    unsigned short key_bytes
    unsigned short expires   # 1: eight bytes of `expire_at_ms` lie between this header and the key

cdef class Notes:
    cdef readonly Py_ssize_t expiring  # notes with an expiry of their own
    cdef Py_ssize_t count
    cdef Note **_places                # in the order in which the keys came; NULL where one was deleted
    cdef unsigned int *_slots          # by hash: a place and one more, or 0; NULL while places are few
    cdef Py_ssize_t _used, _capacity, _mask, _allocated_bytes

    cdef int set_plain(self, const char *key, Py_ssize_t key_bytes, const char *value, Py_ssize_t value_bytes) except -1
    cdef bint find(self, const char *key, Py_ssize_t key_bytes, const char **value, Py_ssize_t *value_bytes,
                   long long *expire_at_ms) noexcept

    cdef void fetch(self, const char *key, Py_ssize_t key_bytes) noexcept

    cdef Py_ssize_t _place_of(self, unsigned int hashed, const char *key, Py_ssize_t key_bytes) noexcept
    cdef int _set(self, const char *key, Py_ssize_t key_bytes, const char *value, Py_ssize_t value_bytes,
                  long long expire_at_ms, bint plain) except -1
    cdef int _make_room(self) except -1
    cdef void _enter(self, Py_ssize_t place) noexcept
