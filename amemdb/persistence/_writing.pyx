"""Blocks written and files synced without the interpreter: the way out of the log.

Two things are native here, and both for the time that a reply waits for its write. A small block is written by the
event loop itself, once a turn: header, checksums and write(2) are one call (`Tail.write`), which keeps the GIL, as
giving it away means waiting for whoever took it. And what waits for the disk is done by a thread that needs no GIL
for it (`Jobs.serve`): under `appendfsync always` each reply waits for such a job, and a search or the loop itself
would otherwise hold the thread up twice, before the write and before the news of the sync.

The references are `amemdb.persistence.codec`, which tells the format and packs the same headers, and
`amemdb.persistence.disk`, whose `FolderFile` says what a write has to see to. Nothing is decided here; what a
failure means is `amemdb.persistence.log`'s affair. Failures are numbers of the system (`errno`).

CRC-32 is computed from eight tables, eight bytes at a time, as zlib's header files are not there on each machine that
builds this; BLAKE2b is RFC 7693's, for the one shape that a block header needs: a key, and a message of 48 bytes.
"""

from cpython.pythread cimport (
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)
from libc.errno cimport EINTR, EIO, ENOENT, errno
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/stat.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #include <time.h>
    #include <unistd.h>
    #ifdef __APPLE__
    #define fdatasync fsync
    #endif

    static int amemdb_is_removed(int descriptor) {
        struct stat found;
        return fstat(descriptor, &found) == 0 && found.st_nlink == 0;
    }

    static int64_t amemdb_now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
    }
    """
    struct iovec:
        void *iov_base
        size_t iov_len

    ctypedef long off_t
    Py_ssize_t pwritev(int descriptor, const iovec *parts, int count, off_t position) nogil
    Py_ssize_t write(int descriptor, const void *data, size_t count) nogil
    Py_ssize_t read(int descriptor, void *data, size_t count) nogil
    int fdatasync(int descriptor) nogil
    int amemdb_is_removed(int descriptor) nogil
    int64_t amemdb_now_ns() nogil

cdef enum:
    HEADER_BYTES = 40
    HEAD_BYTES = 32  # what the check of a header covers of it
    MESSAGE_BYTES = 48  # that, and the number of the segment and the position in it
    CHECK_BYTES = 8
    KEY_BYTES = 16
    BLAKE_BLOCK_BYTES = 128


# -- CRC-32, as zlib has it ------------------------------------------------------------------------

cdef uint32_t _CRC[8][256]


cdef void _fill_crc() noexcept:
    cdef uint32_t value
    cdef int index, bit, table
    for index in range(256):
        value = index
        for bit in range(8):
            value = (value >> 1) ^ (0xEDB88320U if value & 1 else 0)
        _CRC[0][index] = value
    for index in range(256):
        value = _CRC[0][index]
        for table in range(1, 8):
            value = (value >> 8) ^ _CRC[0][value & 0xFF]
            _CRC[table][index] = value


_fill_crc()


cdef uint32_t _crc32(const uint8_t *data, size_t size) noexcept nogil:
    cdef uint32_t low, high, crc = 0xFFFFFFFFU
    while size >= 8:
        low = crc ^ _get32(data)
        high = _get32(data + 4)
        crc = (
            _CRC[7][low & 0xFF] ^ _CRC[6][(low >> 8) & 0xFF] ^ _CRC[5][(low >> 16) & 0xFF] ^ _CRC[4][low >> 24]
            ^ _CRC[3][high & 0xFF] ^ _CRC[2][(high >> 8) & 0xFF] ^ _CRC[1][(high >> 16) & 0xFF] ^ _CRC[0][high >> 24]
        )
        data += 8
        size -= 8
    while size > 0:
        crc = (crc >> 8) ^ _CRC[0][(crc ^ data[0]) & 0xFF]
        data += 1
        size -= 1
    return crc ^ 0xFFFFFFFFU


# -- little endian, on any machine -----------------------------------------------------------------


cdef inline uint32_t _get32(const uint8_t *at) noexcept nogil:
    return at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24


cdef inline uint64_t _get64(const uint8_t *at) noexcept nogil:
    return _get32(at) | <uint64_t> _get32(at + 4) << 32


cdef inline void _put32(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = value & 0xFF
    at[1] = (value >> 8) & 0xFF
    at[2] = (value >> 16) & 0xFF
    at[3] = value >> 24


cdef inline void _put64(uint8_t *at, uint64_t value) noexcept nogil:
    _put32(at, <uint32_t> (value & 0xFFFFFFFFU))
    _put32(at + 4, <uint32_t> (value >> 32))


# -- BLAKE2b ---------------------------------------------------------------------------------------

cdef extern from *:
    """
    static const uint64_t amemdb_iv[8] = {
        0x6A09E667F3BCC908ULL, 0xBB67AE8584CAA73BULL, 0x3C6EF372FE94F82BULL, 0xA54FF53A5F1D36F1ULL,
        0x510E527FADE682D1ULL, 0x9B05688C2B3E6C1FULL, 0x1F83D9ABFB41BD6BULL, 0x5BE0CD19137E2179ULL,
    };
    static const uint8_t amemdb_sigma[12][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
        {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
        {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
        {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
        {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    };
    """
    const uint64_t _IV "amemdb_iv"[8]
    const uint8_t _SIGMA "amemdb_sigma"[12][16]


cdef inline uint64_t _turned(uint64_t value, int count) noexcept nogil:
    return value >> count | value << (64 - count)


cdef inline void _mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) noexcept nogil:
    v[a] += v[b] + x
    v[d] = _turned(v[d] ^ v[a], 32)
    v[c] += v[d]
    v[b] = _turned(v[b] ^ v[c], 24)
    v[a] += v[b] + y
    v[d] = _turned(v[d] ^ v[a], 16)
    v[c] += v[d]
    v[b] = _turned(v[b] ^ v[c], 63)


cdef void _compress(uint64_t *h, const uint8_t *block, uint64_t count, bint last) noexcept nogil:
    """One block of 128 bytes into the state `h`, the `count` bytes up to its end being hashed then."""
    cdef uint64_t v[16]
    cdef uint64_t m[16]
    cdef const uint8_t *s
    cdef int i
    for i in range(16):
        m[i] = _get64(block + 8 * i)
    for i in range(8):
        v[i] = h[i]
        v[i + 8] = _IV[i]
    v[12] ^= count
    if last:
        v[14] = ~v[14]
    for i in range(12):
        s = _SIGMA[i]
        _mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]])
        _mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]])
        _mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]])
        _mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]])
        _mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]])
        _mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]])
        _mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]])
        _mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]])
    for i in range(8):
        h[i] ^= v[i] ^ v[i + 8]


# -- blocks ----------------------------------------------------------------------------------------

cdef struct Payload:
    const char *data
    size_t size
    uint64_t offset


cdef class Tail:
    """The end of the current segment: what all its block headers have in common, and the file."""

    def __init__(self, int descriptor, bytes log_id not None, uint64_t number):
        """`descriptor` stays the caller's to close."""
        cdef uint8_t key[BLAKE_BLOCK_BYTES]
        if len(log_id) != KEY_BYTES:
            raise ValueError("a log id has 16 bytes")
        self._descriptor = descriptor
        self._number = number
        memset(key, 0, BLAKE_BLOCK_BYTES)
        memcpy(key, <const char *> log_id, KEY_BYTES)
        memcpy(self._keyed, _IV, sizeof(self._keyed))
        self._keyed[0] ^= 0x01010000 | KEY_BYTES << 8 | CHECK_BYTES
        _compress(self._keyed, key, BLAKE_BLOCK_BYTES, False)

    def header(self, uint64_t position, uint64_t offset, uint64_t durable, bytes payload not None):
        """What `codec.BlockHeaders.pack` gives."""
        cdef uint8_t packed[HEADER_BYTES]
        self._pack(packed, position, offset, durable, payload, len(payload))
        return packed[:HEADER_BYTES]

    def write(self, uint64_t position, uint64_t offset, uint64_t durable, bytes payload not None):
        """Write a block; 0, or the system's number of the failure, `ENOENT` if the file was removed."""
        return self._write(position, offset, durable, payload, len(payload))

    cdef void _pack(
        self, uint8_t *packed, uint64_t position, uint64_t offset, uint64_t durable, const char *data, size_t size
    ) noexcept nogil:
        """Write the header of that block to `packed`, 40 bytes."""
        cdef uint8_t message[BLAKE_BLOCK_BYTES]
        cdef uint64_t state[8]
        memset(message, 0, BLAKE_BLOCK_BYTES)
        memcpy(message, <const char *> b"\xc1AMB\x01\x00\x00\x00", 8)
        _put64(message + 8, offset)
        _put64(message + 16, durable)
        _put32(message + 24, <uint32_t> size)
        _put32(message + 28, _crc32(<const uint8_t *> data, size))
        _put64(message + HEAD_BYTES, self._number)
        _put64(message + HEAD_BYTES + 8, position)
        memcpy(state, self._keyed, sizeof(state))
        _compress(state, message, BLAKE_BLOCK_BYTES + MESSAGE_BYTES, True)
        memcpy(packed, message, HEAD_BYTES)
        _put64(packed + HEAD_BYTES, state[0])

    cdef int _write(
        self, uint64_t position, uint64_t offset, uint64_t durable, const char *data, size_t size
    ) noexcept nogil:
        cdef uint8_t header[HEADER_BYTES]
        cdef iovec parts[2]
        cdef size_t left = HEADER_BYTES + size
        cdef size_t taken
        cdef Py_ssize_t count
        cdef int first = 0
        self._pack(header, position, offset, durable, data, size)
        parts[0].iov_base = header
        parts[0].iov_len = HEADER_BYTES
        parts[1].iov_base = <void *> data
        parts[1].iov_len = size
        while left > 0:
            count = pwritev(self._descriptor, parts + first, 2 - first, <off_t> position)
            if count < 0:
                if errno == EINTR:
                    continue
                return errno
            if count == 0:
                return EIO
            left -= count
            position += count
            if left > 0:  # the system took a part only
                taken = <size_t> count
                if first == 0 and taken >= parts[0].iov_len:
                    taken -= parts[0].iov_len
                    first = 1
                parts[first].iov_base = <char *> parts[first].iov_base + taken
                parts[first].iov_len -= taken
        if amemdb_is_removed(self._descriptor):  # the system would go on taking what no restart can find
            return ENOENT
        return 0

    cdef int _sync(self) noexcept nogil:
        while fdatasync(self._descriptor) < 0:
            if errno != EINTR:
                return errno
        return 0


# -- the thread ------------------------------------------------------------------------------------

cdef enum Kind:
    STOP
    ASK
    WRITE
    WRITE_AND_SYNC
    SYNC


cdef class Jobs:
    """One job at a time from the loop to a thread that sits in `serve`, and the news of its end back.

    `append`, `sync`, `ask` and `stop` give a job, which must be done before the next is given. The end of it makes
    `notice`, an eventfd that does not block, readable; `finished` takes the news, after which `error`, `synced` and
    `sync_ns` tell how it went.
    """

    cdef PyThread_type_lock _wake
    cdef int _notice
    cdef Kind _kind
    cdef Tail _tail
    cdef object _blocks
    """Keeps alive what `_payloads` points to."""
    cdef Payload *_payloads
    cdef Py_ssize_t _count
    cdef uint64_t _position
    cdef Tail _copy_tail
    cdef bint _has_copy
    cdef uint64_t _copy_position
    cdef uint64_t _durable
    cdef readonly int error
    """0, or the system's number of the failure."""
    cdef readonly bint synced
    """Whether the job came as far as its sync, which failed if `error` is not 0."""
    cdef readonly int64_t sync_ns
    """How long the sync took."""

    def __cinit__(self, int notice):
        self._notice = notice
        self._wake = PyThread_allocate_lock()
        if self._wake == NULL:
            raise MemoryError
        PyThread_acquire_lock(self._wake, WAIT_LOCK)

    def __dealloc__(self):
        free(self._payloads)
        if self._wake != NULL:
            PyThread_free_lock(self._wake)

    # The loop's side.

    def append(
        self,
        Tail tail not None,
        uint64_t position,
        tuple blocks not None,
        uint64_t durable,
        bint sync,
        Tail copy_tail=None,
        uint64_t copy_position=0,
    ):
        """Write `blocks`, pairs of an offset and a payload, from `position` on, then sync if asked to.

        With `copy_tail` they are also written, and synced, there.
        """
        cdef Py_ssize_t index
        cdef bytes payload
        cdef Payload *payloads = <Payload *> malloc(max(1, len(blocks)) * sizeof(Payload))
        if payloads == NULL:
            raise MemoryError
        free(self._payloads)
        self._payloads = payloads
        for index in range(len(blocks)):
            offset, payload = blocks[index]
            payloads[index].offset = offset
            payloads[index].data = payload
            payloads[index].size = len(payload)
        self._blocks = blocks
        self._count = len(blocks)
        self._tail = tail
        self._position = position
        self._copy_tail = copy_tail
        self._has_copy = copy_tail is not None
        self._copy_position = copy_position
        self._durable = durable
        self._give(WRITE_AND_SYNC if sync else WRITE)

    def sync(self, Tail tail not None):
        """Sync the file."""
        self._tail = tail
        self._copy_tail = None
        self._has_copy = False
        self._give(SYNC)

    def ask(self):
        """Have `serve` return, for a step that needs Python; its end is told with `tell`."""
        self._give(ASK)

    def stop(self):
        """Have `serve` return for good."""
        self._give(STOP)

    def finished(self):
        """Whether a job has ended since the last call."""
        cdef uint64_t count
        if read(self._notice, &count, sizeof(count)) != sizeof(count):
            return False
        self._blocks = None
        self._copy_tail = None
        return True

    cdef void _give(self, Kind kind) noexcept:
        self._kind = kind
        PyThread_release_lock(self._wake)

    # The thread's side.

    def serve(self):
        """Do jobs until there is one that needs Python (true), or no more is to be done (false)."""
        cdef Kind kind
        with nogil:
            while True:
                PyThread_acquire_lock(self._wake, WAIT_LOCK)
                kind = self._kind
                if kind == STOP or kind == ASK:
                    break
                self._do(kind)
                self._tell()
        return kind == ASK

    def tell(self):
        """The step that needed Python has ended."""
        self._tell()

    cdef void _do(self, Kind kind) noexcept nogil:
        cdef bint copies = self._has_copy
        cdef int64_t started_ns
        self.error = 0
        self.synced = False
        if kind != SYNC:
            self.error = self._write_blocks(self._tail, self._position)
            if self.error == 0 and copies:
                self.error = self._write_blocks(self._copy_tail, self._copy_position)
            if self.error != 0:
                return
        if kind != WRITE:
            started_ns = amemdb_now_ns()
            self.error = self._tail._sync()
            if self.error == 0 and copies:
                self.error = self._copy_tail._sync()
            self.sync_ns = amemdb_now_ns() - started_ns
            self.synced = True

    cdef int _write_blocks(self, Tail tail, uint64_t position) noexcept nogil:
        cdef Py_ssize_t index
        cdef Payload *payload
        cdef int error
        for index in range(self._count):
            payload = self._payloads + index
            error = tail._write(position, payload.offset, self._durable, payload.data, payload.size)
            if error != 0:
                return error
            position += HEADER_BYTES + payload.size
        return 0

    cdef void _tell(self) noexcept nogil:
        cdef uint64_t one = 1
        while write(self._notice, &one, sizeof(one)) < 0 and errno == EINTR:
            pass
