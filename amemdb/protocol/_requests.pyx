"""The plain shape of requests, cut out of a chunk without an object for each token.

Plain is an array of bulks that lies whole in the chunk: `*n`, then n times `$length` and the bytes, every number
without sign or leading zero, every line ended by CR LF, within the limits of one connection that has logged in.
Nothing here ever decides that something is wrong: whatever is not plain is left to the reference,
`amemdb.protocol.request`, which holds the grammar, the limits, every error, and what is split between two chunks.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF

cdef enum:
    MISSING = -2
    DIGITS_MAX = 6  # of a number in a plain header: below the limits of arrays and bulks


cdef class PlainRequests:
    """A walk over one chunk.

    `peek` finds the request that begins at `at`: its first `TOKENS_MAX` tokens lie in `tokens`, `count` is how many
    it has, `end` where it ends. `skip` goes on to the next one.
    """

    def __cinit__(self):
        self.chunk = b""

    cdef int hold(self, bytes chunk) except -1:
        """Begin a chunk; what was left of the one before is forgotten."""
        self.chunk = chunk
        self.data = PyBytes_AS_STRING(chunk)
        self.size = PyBytes_GET_SIZE(chunk)
        self.at = 0
        self.end = 0
        self.count = 0
        return 0

    cdef Py_ssize_t peek(self) noexcept:
        """How many tokens the request at `at` has; 0 when it is not plain, or there is none; -1 when bytes are missing."""
        cdef const char *data = self.data
        cdef Py_ssize_t size = self.size, at = self.at, count, index, length
        self.count = 0
        if at >= size or data[at] != b'*':
            return 0
        at += 1
        count = _number(data, size, &at)
        if count <= 0:
            return -1 if count == MISSING else 0
        for index in range(count):
            if at >= size:
                return -1
            if data[at] != b'$':
                return 0
            at += 1
            length = _number(data, size, &at)
            if length < 0:
                return -1 if length == MISSING else 0
            if length > size - at - 2:
                return 0 if length == size - at - 1 and data[at + length] != b'\r' else -1
            if data[at + length] != b'\r' or data[at + length + 1] != b'\n':
                return 0
            if index < TOKENS_MAX:
                self.tokens[index].data = data + at
                self.tokens[index].size = length
            at += length + 2
        self.end = at
        self.count = count
        return count

    cdef void skip(self) noexcept:
        """Go behind the request that was found."""
        self.at = self.end

    cdef list argv(self):
        """The tokens of the request that was found, as `RequestParser.next` gives them."""
        cdef list tokens = PyList_New(self.count)
        cdef const char *data = self.data
        cdef Py_ssize_t at = self.at + 1, index, length
        cdef bytes token
        _number(data, self.size, &at)
        for index in range(self.count):
            at += 1
            length = _number(data, self.size, &at)
            token = PyBytes_FromStringAndSize(data + at, length)
            Py_INCREF(token)
            PyList_SET_ITEM(tokens, index, token)
            at += length + 2
        return tokens

    cdef bytes rest(self):
        """What lies behind the requests that were skipped."""
        if self.at == 0:
            return self.chunk
        return self.chunk[self.at:]


cdef inline Py_ssize_t _number(const char *data, Py_ssize_t size, Py_ssize_t *at) noexcept:
    """The number at `at`, up to and with its CR LF, which `at` is moved behind; -1: no plain one, `MISSING`: not all."""
    cdef Py_ssize_t place = at[0], number = 0, last = min(size, place + DIGITS_MAX)
    cdef int digit
    while place < last:
        digit = data[place] - 48
        if digit < 0 or digit > 9:
            break
        if number == 0 and place > at[0]:
            return -1
        number = number * 10 + digit
        place += 1
    if place + 1 >= size:
        return MISSING if place >= size or data[place] == b'\r' else -1
    if place == at[0] or data[place] != b'\r' or data[place + 1] != b'\n':
        return -1
    at[0] = place + 2
    return number
