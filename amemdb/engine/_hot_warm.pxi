# Looking ahead: have what the next requests will touch on its way from memory before they are served.
#
# With many sessions a command's time goes into waiting: for the dictionary's entry, the object, its newest chunk, each
# found only through the one before. In a pipeline the next requests are known, so their objects are looked up a few at
# a time and the processor is told to fetch, step by step for all of them together, what would be waited for one by
# one. Nothing is changed. What is remembered is where each request lies and its name as an object: the handlers look
# everything up again, and find it at hand.

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
        fetch((<Conversation> found)._oldest, 1)
        return (<Conversation> found)._newest
    if kind == NOTES and (<Conversation> found).notes is not None:
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
        if conversation.count >= conversation.window:  # the next turn drops the oldest
            fetch(<char *> conversation._oldest + sizeof(Chunk) + conversation._oldest.start, 1)
        return <char *> conversation._newest + conversation._newest.used
    if kind == NOTES:
        fetch((<Conversation> found).notes._slots, 1)
        return (<Conversation> found).notes._places
    if kind == EVENTS:
        events = (<EventLog> found).events
        return NULL if events.chunks == NULL else events.chunks + events.end - 1
    return NULL


cdef int look_ahead(HotPath path, PlainRequests requests) except -1:
    """Find the next requests that are plain and hot, and fetch what they will touch; how many they are."""
    cdef PyObject *found[AHEAD_MAX]
    cdef int kinds[AHEAD_MAX]
    cdef Ahead *ahead
    cdef void *address
    cdef Py_ssize_t at = requests.at
    cdef int count = 0, index, place
    while count < AHEAD_MAX and requests.peek() > 0:
        place = path.find(requests)
        if place < 0 or KINDS[place] == NOTHING:
            break
        ahead = &path._ahead[count]
        ahead.at = requests.at
        ahead.end = requests.end
        ahead.count = requests.count
        ahead.place = place
        for index in range(min(requests.count, AHEAD_TOKENS_MAX)):
            ahead.tokens[index] = requests.tokens[index]
        kinds[count] = KINDS[place]
        found[count] = object_of(path, kinds[count], remembered_name(path, count))
        if found[count] == NULL:
            kinds[count] = NOTHING
        else:
            fetch(found[count], 3 if kinds[count] == VALUE else 2)
        count += 1
        requests.skip()
    requests.at = at
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
    for index in range(count):
        if kinds[index] == NOTES:
            ahead = &path._ahead[index]
            (<Conversation> found[index]).notes.fetch(ahead.tokens[2].data, ahead.tokens[2].size)
    return count


cdef inline bytes remembered_name(HotPath path, int index):
    """The first name of a request that was found ahead, as an object that its handler will use as well."""
    cdef bytes name = as_bytes(path._ahead[index].tokens[1])
    path._ahead_names[index] = name
    return name


cdef inline PyObject *object_of(HotPath path, int kind, bytes name) except? NULL:
    """What a request of that kind concerns, if it is there."""
    if kind == EVENTS:
        return PyDict_GetItem(path._epis.logs, name)
    if kind == VALUE:
        return PyDict_GetItem((<Database> path._databases[path.db]).values, name)
    return PyDict_GetItem(path._conv.sessions, name)
