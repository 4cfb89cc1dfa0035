# Looking ahead: have what the next requests will touch on its way from memory before they are served.
#
# With many sessions a command's time goes into waiting: for the dictionary's entry, the object, its newest chunk, each
# found only through the one before. In a pipeline the next requests are known, so their objects are looked up a few at
# a time and the processor is told to fetch, step by step for all of them together, what would be waited for one by
# one. Nothing is changed, and nothing is remembered but the names, as objects: the handlers look everything up again,
# and find it at hand.

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef enum:
    NOTHING
    CONVERSATION
    NOTES
    EVENTS
    VALUE


cdef inline void fetch(const void *address, int lines) noexcept nogil:
    cdef int line
    for line in range(lines):
        __builtin_prefetch(<const char *> address + 64 * line)


cdef inline void *second(int kind, PyObject *found) noexcept:
    """What the object found leads to, which has been fetched."""
    if kind == CONVERSATION:
        return (<Conversation> found)._newest
    if kind == NOTES:
        return <void *> (<Conversation> found).notes
    if kind == EVENTS:
        return <void *> (<EventLog> found).events
    return NULL


cdef inline void *third(int kind, PyObject *found) noexcept:
    """What that leads to in its turn."""
    cdef Conversation conversation
    cdef Timeline events
    if kind == CONVERSATION:
        conversation = <Conversation> found
        return <char *> conversation._newest + conversation._newest.used
    if kind == NOTES:
        if (<Conversation> found).notes is None:
            return NULL
        fetch((<Conversation> found).notes._slots, 1)
        return (<Conversation> found).notes._places
    if kind == EVENTS:
        events = (<EventLog> found).events
        return NULL if events.chunks == NULL else events.chunks + events.end - 1
    return NULL


cdef int look_ahead(HotPath path, PlainRequests requests) except -1:
    """Fetch what the next requests will touch; how many of them were looked at."""
    cdef PyObject *found[AHEAD_MAX]
    cdef int kinds[AHEAD_MAX]
    cdef void *address
    cdef Py_ssize_t at = requests.at
    cdef int count = 0, index, place
    cdef bytes name
    while count < AHEAD_MAX and requests.peek() > 0:
        place = path.find(requests)
        kinds[count] = NOTHING if place < 0 else KINDS[place]
        if kinds[count] == NOTHING:
            break
        name = as_bytes(requests.tokens[1])
        path._ahead_names[count] = name
        path._ahead_data[count] = requests.tokens[1].data
        if kinds[count] == NOTES or kinds[count] == CONVERSATION:
            found[count] = PyDict_GetItem(path._conv.sessions, name)
        elif kinds[count] == EVENTS:
            found[count] = PyDict_GetItem(path._epis.logs, name)
        else:
            found[count] = PyDict_GetItem((<Database> path._databases[path.db]).values, name)
        if found[count] == NULL:
            kinds[count] = NOTHING
        else:
            fetch(found[count], 3 if kinds[count] == VALUE else 2)
        count += 1
        requests.skip()
    requests.at = at
    path._ahead_at = 0
    path._ahead_count = count
    for index in range(count):
        address = second(kinds[index], found[index])
        if address == NULL:
            kinds[index] = NOTHING
        else:
            fetch(address, 2)
    for index in range(count):
        address = third(kinds[index], found[index])
        if address != NULL:
            fetch(address, 3)
    return count
