# The native handlers; included by `_hot.pyx`, whose charter says what they may do.
#
# Each looks first and declines by `return 0`; what follows the first change cannot fail. A record's fields are those
# of `amemdb.stores.records`, a reply's form that of the command's declared shape.

cdef enum:
    VALUE_BYTES_MAX = 65536  # a larger value is left to the reference, which does not copy it
    ANSWER_BYTES_MAX = 262144  # a longer answer is the reference's, which sends it in slices
    INTEGER_BYTES = 9  # of an integer in a record, at most
    BYTES_HEAD = 5  # of bytes in a record, beside themselves
    TURNS_MAX = 4096
    FACTS_MAX = 500  # an array of more is sent in slices
    ITEM_BYTES = 96  # of a fact in an answer, beside its texts, at most

cdef struct Head:
    const char *resp2
    const char *resp3
    Py_ssize_t size

# A turn as CONV.GET and CONV.WINDOW give it, up to the content's length. In the order of the store's role numbers.
cdef Head[4] TURN_HEADS = [
    Head(b"*4\r\n$4\r\nrole\r\n$6\r\nsystem\r\n$7\r\ncontent\r\n", b"%2\r\n$4\r\nrole\r\n$6\r\nsystem\r\n$7\r\ncontent\r\n", 39),
    Head(b"*4\r\n$4\r\nrole\r\n$4\r\nuser\r\n$7\r\ncontent\r\n", b"%2\r\n$4\r\nrole\r\n$4\r\nuser\r\n$7\r\ncontent\r\n", 37),
    Head(b"*4\r\n$4\r\nrole\r\n$9\r\nassistant\r\n$7\r\ncontent\r\n", b"%2\r\n$4\r\nrole\r\n$9\r\nassistant\r\n$7\r\ncontent\r\n", 42),
    Head(b"*4\r\n$4\r\nrole\r\n$4\r\ntool\r\n$7\r\ncontent\r\n", b"%2\r\n$4\r\nrole\r\n$4\r\ntool\r\n$7\r\ncontent\r\n", 37),
]
cdef const char **ROLES = [b"system", b"user", b"assistant", b"tool"]
cdef Py_ssize_t[4] ROLE_BYTES = [6, 4, 9, 4]


cdef inline bytes as_bytes(Token token):
    return PyBytes_FromStringAndSize(token.data, token.size)


cdef inline int put_ok(ReplyBuffer out) except -1:
    return out.put(b"+OK\r\n", 5)


cdef inline int put_missing(HotPath path, ReplyBuffer out) except -1:
    if path.resp3:
        return out.put(b"_\r\n", 3)
    return out.put(b"$-1\r\n", 5)


cdef inline int role_of(Token token) noexcept:
    """The store's number of a role written in lower case; -1 for anything else."""
    cdef int role
    for role in range(4):
        if token.size == ROLE_BYTES[role] and memcmp(token.data, ROLES[role], token.size) == 0:
            return role
    return -1


cdef inline long long plain_number(Token token) noexcept:
    """A number from 0 on, in its one usual form and far from any bound; -1 for anything else."""
    cdef long long number = 0
    cdef Py_ssize_t index
    if not 0 < token.size <= 9 or (token.data[0] == b'0' and token.size > 1):
        return -1
    for index in range(token.size):
        if not b'0' <= token.data[index] <= b'9':
            return -1
        number = number * 10 + (token.data[index] - 48)
    return number


cdef inline bint alive(Conversation conversation, long long now_ms) noexcept:
    return conversation.expire_at_ms == 0 or conversation.expire_at_ms > now_ms


cdef inline object got(object mapping, object key):
    """`mapping[key]` or None."""
    cdef PyObject *found = PyDict_GetItem(mapping, key)
    return None if found == NULL else <object> found


# -- connection ------------------------------------------------------------------------------------


cdef int run_ping(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    out.put(b"+PONG\r\n", 7)
    return 1


# -- strings ---------------------------------------------------------------------------------------


cdef int run_get(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Database database = <Database> path._databases[path.db]
    cdef bytes key = path.name(&requests.tokens[1])
    cdef PyObject *found = PyDict_GetItem(database.values, key)
    cdef dict expires
    if found == NULL:
        put_missing(path, out)
        return 1
    if not PyBytes_CheckExact(<object> found) or PyBytes_GET_SIZE(<object> found) > VALUE_BYTES_MAX:
        return 0
    expires = database.expires
    if len(expires) and PyDict_GetItem(expires, key) != NULL and <long long> expires[key] <= path.now_ms:
        return 0
    out.put_bulk(PyBytes_AS_STRING(<object> found), PyBytes_GET_SIZE(<object> found))
    return 1


cdef int run_set(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Token name = requests.tokens[1], text = requests.tokens[2]
    cdef Database database = <Database> path._databases[path.db]
    cdef dict values = database.values, expires = database.expires
    cdef Py_ssize_t more
    cdef PyObject *found
    cdef bytes key
    cdef char *at
    if text.size > VALUE_BYTES_MAX or len(path._watched):
        return 0
    key = path.name(&requests.tokens[1])
    if len(expires) and PyDict_GetItem(expires, key) != NULL:
        return 0
    found = PyDict_GetItem(values, key)
    more = text_bytes(text.size)
    if found == NULL:
        database.names.add_name(key)
        more += text_bytes(name.size)
    elif PyBytes_CheckExact(<object> found):
        more -= text_bytes(PyBytes_GET_SIZE(<object> found))
    else:
        return 0
    database.held_bytes += more
    path._ledger.keyspace += more
    PyDict_SetItem(values, key, as_bytes(text))
    at = path.frame(5, name.size + text.size + 2 * BYTES_HEAD + 3 * INTEGER_BYTES)
    at = put_integer(at, RECORD_KEY_SET)
    at = put_integer(at, path.db)
    at = put_bytes(at, name.data, name.size)
    at = put_bytes(at, text.data, text.size)
    path.framed(put_integer(at, 0))
    put_ok(out)
    return 1


# -- conversation ----------------------------------------------------------------------------------


cdef int run_conv_append(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Token name = requests.tokens[1], content = requests.tokens[3]
    cdef int role = role_of(requests.tokens[2])
    cdef Conversation conversation
    cdef Py_ssize_t before
    cdef PyObject *found
    cdef char *at
    if role < 0 or content.size > VALUE_BYTES_MAX:
        return 0
    found = PyDict_GetItem(path._conv.sessions, path.name(&requests.tokens[1]))
    if found == NULL:
        return 0
    conversation = <Conversation> found
    if not alive(conversation, path.now_ms):
        return 0
    before = conversation._allocated_bytes
    conversation.append_plain(role, content.data, content.size, path.now_ms)
    path._ledger.conversation += conversation._allocated_bytes - before
    at = path.frame(7, name.size + content.size + 16 + 3 * BYTES_HEAD + 4 * INTEGER_BYTES)
    at = put_integer(at, RECORD_TURN_APPENDED)
    at = put_bytes(at, name.data, name.size)
    at = put_bytes(at, ROLES[role], ROLE_BYTES[role])
    at = put_bytes(at, content.data, content.size)
    at = put_integer(at, path.now_ms)
    at = put_nil(at)
    path.framed(put_nil(at))
    put_ok(out)
    return 1


cdef int run_conv_window(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef long long count = plain_number(requests.tokens[2])
    if count < 0:
        return 0
    return put_turns(path, path.name(&requests.tokens[1]), count, out)


cdef int run_conv_get(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    return put_turns(path, path.name(&requests.tokens[1]), TURNS_MAX + 1, out)


cdef int put_turns(HotPath path, bytes session, long long count, ReplyBuffer out) except -1:
    """The newest `count` turns of a session, an unknown one being empty."""
    cdef PyObject *found = PyDict_GetItem(path._conv.sessions, session)
    cdef Conversation conversation
    cdef Cursor cursor
    cdef Turn turn
    cdef Py_ssize_t bytes_max
    cdef Head *head
    cdef char *at
    if found == NULL:
        out.put(b"*0\r\n", 4)
        return 1
    conversation = <Conversation> found
    if not alive(conversation, path.now_ms):
        return 0
    count = min(count, conversation.count)
    if count > TURNS_MAX:
        return 0
    conversation.seek_newest(count, &cursor)
    bytes_max = cursor.bytes_max + 64 * count + 16
    if bytes_max > ANSWER_BYTES_MAX:
        return 0
    at = out.room(bytes_max)
    at[0] = b'*'
    at += 1 + decimal(at + 1, count)
    at[0] = b'\r'
    at[1] = b'\n'
    at += 2
    while conversation.next_turn(&cursor, &turn):
        head = &TURN_HEADS[turn.role]
        memcpy(at, head.resp3 if path.resp3 else head.resp2, head.size)
        at += head.size
        at[0] = b'$'
        at += 1 + decimal(at + 1, turn.content_bytes)
        at[0] = b'\r'
        at[1] = b'\n'
        memcpy(at + 2, turn.content, turn.content_bytes)
        at += 2 + turn.content_bytes
        at[0] = b'\r'
        at[1] = b'\n'
        at += 2
    out.size = at - out.data
    return 1


# -- working notes ---------------------------------------------------------------------------------


cdef int run_work_set(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Token name = requests.tokens[1], key = requests.tokens[2], text = requests.tokens[3]
    cdef Py_ssize_t before
    cdef PyObject *found
    cdef Notes notes
    cdef char *at
    if text.size > VALUE_BYTES_MAX:
        return 0
    found = PyDict_GetItem(path._conv.sessions, path.name(&requests.tokens[1]))
    if found == NULL or not alive(<Conversation> found, path.now_ms):
        return 0
    notes = (<Conversation> found).notes
    if notes is None:
        notes = path._work.notes_of((<Conversation> found).name)
    before = notes._allocated_bytes
    if not notes.set_plain(key.data, key.size, text.data, text.size):
        return 0
    path._ledger.working += notes._allocated_bytes - before
    at = path.frame(5, name.size + key.size + text.size + 3 * BYTES_HEAD + 2 * INTEGER_BYTES)
    at = put_integer(at, RECORD_NOTE_SET)
    at = put_bytes(at, name.data, name.size)
    at = put_bytes(at, key.data, key.size)
    at = put_bytes(at, text.data, text.size)
    path.framed(put_integer(at, 0))
    put_ok(out)
    return 1


cdef int run_work_get(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Token key = requests.tokens[2]
    cdef PyObject *found = PyDict_GetItem(path._conv.sessions, path.name(&requests.tokens[1]))
    cdef Notes notes
    cdef const char *text
    cdef Py_ssize_t size
    cdef long long expire_at_ms
    if found == NULL:
        put_missing(path, out)
        return 1
    if not alive(<Conversation> found, path.now_ms):
        return 0
    notes = (<Conversation> found).notes
    if notes is None or not notes.find(key.data, key.size, &text, &size, &expire_at_ms):
        put_missing(path, out)
        return 1
    if size > VALUE_BYTES_MAX or 0 < expire_at_ms <= path.now_ms:
        return 0
    if size == 0:
        put_missing(path, out)
    else:
        out.put_bulk(text, size)
    return 1


# -- episodic --------------------------------------------------------------------------------------


cdef int run_epis_log(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Token name = requests.tokens[1], kind = requests.tokens[2], content = requests.tokens[3]
    cdef bytes agent = path.name(&requests.tokens[1])
    cdef PyObject *found = PyDict_GetItem(path._epis.logs, agent)
    cdef EventLog log
    cdef Py_ssize_t before
    cdef long long seq
    cdef char *at
    if content.size > VALUE_BYTES_MAX:
        return 0
    log = <EventLog> path._epis.log_of(agent) if found == NULL else <EventLog> found
    if not log.plain():
        return 0
    seq = log.next_seq
    before = log.events.held_bytes()
    log.log_plain(kind.data, kind.size, content.data, content.size, path.now_ms)
    path._ledger.episodic += log.events.held_bytes() - before
    at = path.frame(8, name.size + kind.size + content.size + 3 * BYTES_HEAD + 5 * INTEGER_BYTES)
    at = put_integer(at, RECORD_EVENT_LOGGED)
    at = put_bytes(at, name.data, name.size)
    at = put_integer(at, seq)
    at = put_integer(at, path.now_ms)
    at = put_bytes(at, kind.data, kind.size)
    at = put_bytes(at, content.data, content.size)
    at = put_nil(at)
    path.framed(put_nil(at))
    put_ok(out)
    return 1


# -- semantic --------------------------------------------------------------------------------------


cdef int run_sem_recall(HotPath path, PlainRequests requests, ReplyBuffer out) except -1:
    cdef Token form = requests.tokens[3], vector = requests.tokens[4]
    cdef long long count = plain_number(requests.tokens[2])
    cdef PyObject *found
    cdef Py_ssize_t before = out.size
    cdef tuple hit, fact
    cdef list hits
    cdef char *at
    if not 0 < count <= FACTS_MAX or form.size != 4 or not is_fp32(form.data) or not are_finite(vector):
        return 0
    found = PyDict_GetItem(path._sem.namespaces, path.name(&requests.tokens[1]))
    if found == NULL:
        return 0
    namespace = <object> found
    hits = hits_at_once(namespace, count, as_bytes(vector), path.now_ms)
    if hits is None:
        return 0
    by_id = namespace._by_id
    at = out.room(24)
    at[0] = b'*'
    at += 1 + decimal(at + 1, len(hits))
    at[0] = b'\r'
    at[1] = b'\n'
    out.size = at + 2 - out.data
    for hit in hits:
        fact = <tuple> by_id[hit[1]]
        if not put_fact(path, <bytes> fact[1], <bytes> fact[2], <double> hit[0], out) or (
            out.size - before > ANSWER_BYTES_MAX
        ):
            out.size = before
            return 0
    return 1


cdef int put_fact(HotPath path, bytes key, bytes content, double similarity, ReplyBuffer out) except -1:
    """Add an item of an answer; 0 if it is long."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(content)
    if size > VALUE_BYTES_MAX:
        return 0
    out.room(size + PyBytes_GET_SIZE(key) + ITEM_BYTES)
    out.put(b"%3\r\n$3\r\nkey\r\n" if path.resp3 else b"*6\r\n$3\r\nkey\r\n", 13)
    out.put_bulk(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    out.put(b"$7\r\ncontent\r\n", 13)
    out.put_bulk(PyBytes_AS_STRING(content), size)
    out.put(b"$10\r\nsimilarity\r\n", 17)
    put_double(path, similarity, out)
    return 1


cdef int put_double(HotPath path, double value, ReplyBuffer out) except -1:
    """Add a number as `decimal_text` writes it."""
    cdef char *text = PyOS_double_to_string(value, b'r', 0, 0, NULL)
    cdef Py_ssize_t size = strlen(text)
    cdef bytes written = None
    try:
        if value == 0 or memchr(text, b'e', size) != NULL:
            written = decimal_text(value)
        if path.resp3:
            out.put(b",", 1)
            if written is None:
                out.put(text, size)
            else:
                out.put(PyBytes_AS_STRING(written), PyBytes_GET_SIZE(written))
            out.put(b"\r\n", 2)
        elif written is None:
            out.put_bulk(text, size)
        else:
            out.put_bulk(PyBytes_AS_STRING(written), PyBytes_GET_SIZE(written))
    finally:
        PyMem_Free(text)
    return 0


cdef inline bint is_fp32(const char *word) noexcept:
    return (word[0] | 32) == b'f' and (word[1] | 32) == b'p' and word[2] == b'3' and word[3] == b'2'


cdef inline bint are_finite(Token vector) noexcept:
    """Whether these are float32, at least one, and each is a number."""
    cdef Py_ssize_t at
    cdef uint32_t bits
    cdef bint odd = False
    for at in range(0, vector.size & ~3, 4):
        memcpy(&bits, vector.data + at, 4)
        odd |= (bits & 0x7F800000) == 0x7F800000
    return vector.size > 0 and vector.size % 4 == 0 and not odd
