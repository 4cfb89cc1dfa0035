# Written by `python -m amemdb.commands.generate`: do not edit.

cdef enum:
    COMMANDS = 10
    NAME_BYTES_MAX = 1024

COMMAND_NAMES = (
    'PING',
    'AMEM.CONV.APPEND',
    'AMEM.CONV.GET',
    'AMEM.CONV.WINDOW',
    'SET',
    'GET',
    'AMEM.EPIS.LOG',
    'AMEM.SEM.RECALL',
    'AMEM.WORK.SET',
    'AMEM.WORK.GET',
)

cdef int[10] TOKENS = [1, 4, 2, 3, 3, 2, 4, 5, 4, 3]
cdef bint[10] WRITES = [0, 1, 0, 0, 1, 0, 1, 0, 1, 0]
cdef bint[10] READS = [0, 0, 1, 1, 0, 1, 0, 1, 0, 1]
cdef unsigned int[10] NAMES = [0x0, 0x2, 0x2, 0x2, 0x0, 0x0, 0x6, 0x2, 0x6, 0x6]
cdef int[10] KINDS = [NOTHING, CONVERSATION, CONVERSATION, CONVERSATION, VALUE, VALUE, EVENTS, NOTHING, NOTES, NOTES]
cdef Handler[10] HANDLERS = [
    run_ping,
    run_conv_append,
    run_conv_get,
    run_conv_window,
    run_set,
    run_get,
    run_epis_log,
    run_sem_recall,
    run_work_set,
    run_work_get,
]


cdef inline int place_of(const char *word, Py_ssize_t size) noexcept nogil:
    if size == 3:
        if memcmp(word, b"SET", 3) == 0:
            return 4
        if memcmp(word, b"GET", 3) == 0:
            return 5
    elif size == 4:
        if memcmp(word, b"PING", 4) == 0:
            return 0
    elif size == 13:
        if memcmp(word, b"AMEM.CONV.GET", 13) == 0:
            return 2
        if memcmp(word, b"AMEM.EPIS.LOG", 13) == 0:
            return 6
        if memcmp(word, b"AMEM.WORK.SET", 13) == 0:
            return 8
        if memcmp(word, b"AMEM.WORK.GET", 13) == 0:
            return 9
    elif size == 15:
        if memcmp(word, b"AMEM.SEM.RECALL", 15) == 0:
            return 7
    elif size == 16:
        if memcmp(word, b"AMEM.CONV.APPEND", 16) == 0:
            return 1
        if memcmp(word, b"AMEM.CONV.WINDOW", 16) == 0:
            return 3
    return -1
