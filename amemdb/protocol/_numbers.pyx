"""The numbers of a vector, read in bulk: decimals to float32, some 20 ns each, where Python's `float` takes 250.

The reference is `amemdb.protocol.numbers`: each token by Python's `float`, which is the double nearest to what is
written, and that rounded to float32. Both roundings are kept, bit by bit:

1. A token of the grammar is `w * 10**e`, w its first 19 digits that count, an integer below 2**64.
2. Where w and the power of ten are exact as doubles, one multiplication or division gives the nearest double
   (W. D. Clinger, How to Read Floating Point Numbers Accurately, 1990).
3. Otherwise the same operation is off by at most three roundings, of w, of the power and of itself, each a part in
   2**53, and by the digits that were cut off, a part in 10**18. Rounding never turns an order round: if both ends of
   a wider margin are the same float32, so is the double nearest to what lies between. That fails once in some ten
   million numbers.
4. What is left, and what has a far exponent, is read by the function behind Python's `float`.

What is not of the grammar, or not finite as float32, is left to the reference, which has the words for it. Where
the compiler computes in more than doubles, point 4 is all there is.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    PyObject *item_of "PyList_GET_ITEM" (PyObject *tokens, Py_ssize_t index) nogil
    char *text_of "PyBytes_AS_STRING" (PyObject *token) nogil
    Py_ssize_t size_of "PyBytes_GET_SIZE" (PyObject *token) nogil
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0

cdef extern from *:
    """
    #include <float.h>

    #if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
    #define AMEMDB_DOUBLES_ARE_DOUBLES 1
    #else
    #define AMEMDB_DOUBLES_ARE_DOUBLES 0
    #endif

    /* Exact up to 1e22, the nearest double beyond. */
    static const double amemdb_powers_of_ten[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37,
        1e38, 1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51, 1e52, 1e53, 1e54, 1e55,
        1e56, 1e57, 1e58, 1e59, 1e60, 1e61, 1e62, 1e63, 1e64
    };
    """
    const bint DOUBLES_ARE_DOUBLES "AMEMDB_DOUBLES_ARE_DOUBLES"
    const double *POWERS_OF_TEN "amemdb_powers_of_ten"

cdef enum:
    DIGITS_MAX = 19  # of a number below 2**64
    EXACT_POWER_MAX = 22
    POWER_MAX = 64
    EXPONENT_MAX = 1 << 20  # where an exponent stops growing: that is left to exact arithmetic
    HELD_MAX = 4096  # more numbers than this are read while other threads run
    TURN = 128  # numbers that need the lock of the interpreter, at most, each time that it is taken

cdef enum Reading:
    NOT_PLAIN  # no number of the grammar, or infinite as float32
    OPEN  # a number, which takes exact arithmetic
    SURE

cdef uint64_t EXACT_MAX = 1 << 53
cdef double MARGIN = 2.0 ** -50


cdef bint float32_of(const char *text, Py_ssize_t size, float *value) noexcept nogil:
    return _read(text, size, value) == SURE


def floats32(list tokens not None):
    """The numbers that `tokens` spell, as little-endian float32; None if one is no number, or not finite as float32.

    While there are many to read, other threads run.
    """
    cdef Py_ssize_t count = len(tokens), done = 0, last, index
    cdef bytes vector = PyBytes_FromStringAndSize(NULL, 4 * count)
    cdef char *target = PyBytes_AS_STRING(vector)
    cdef PyObject *items = <PyObject *> tokens
    cdef Reading reading = SURE if count else NOT_PLAIN
    for index in range(count):
        if type(tokens[index]) is not bytes:
            return None
    if count <= HELD_MAX:
        done = _run(items, 0, count, target, &reading)
    while done < count and reading != NOT_PLAIN:
        if count > HELD_MAX:
            with nogil:  # nobody else has this list, and bytes do not change
                done = _run(items, done, count, target, &reading)
        last = min(count, done + TURN)
        while done < last and reading != NOT_PLAIN:
            reading = _exactly(<bytes> item_of(items, done), target + 4 * done)
            done += reading == SURE
        if count <= HELD_MAX and reading != NOT_PLAIN:
            done = _run(items, done, count, target, &reading)
    return vector if reading == SURE else None


def numbers_end(list argv not None, Py_ssize_t start, frozenset words not None):
    """The index of the first token from `start` on that is one of `words`, in any case; else how many tokens there are.
    """
    cdef Py_ssize_t index
    cdef bytes token
    for index in range(start, len(argv)):
        token = argv[index]
        # The text of an empty token is the zero byte behind it.
        if <unsigned char> PyBytes_AS_STRING(token)[0] > b'9' and token.upper() in words:
            return index
    return len(argv)


cdef Py_ssize_t _run(
    PyObject *tokens, Py_ssize_t first, Py_ssize_t count, char *target, Reading *reading
) noexcept nogil:
    """Read from `first` on up to the first number that is not sure; its index."""
    cdef Py_ssize_t index
    cdef PyObject *token
    cdef float value = 0
    for index in range(first, count):
        token = item_of(tokens, index)
        reading[0] = _read(text_of(token), size_of(token), &value)
        if reading[0] != SURE:
            return index
        _store(target + 4 * index, value)
    return count


cdef Reading _exactly(bytes token, char *target) except *:
    """Read one number, by exact arithmetic if need be."""
    cdef float value = 0
    cdef Reading reading = _read(PyBytes_AS_STRING(token), PyBytes_GET_SIZE(token), &value)
    if reading == OPEN:
        value = <float> PyOS_string_to_double(PyBytes_AS_STRING(token), NULL, NULL)
        reading = SURE if _is_finite(value) else NOT_PLAIN
    if reading == SURE:
        _store(target, value)
    return reading


cdef inline const char *_take_digits(const char *at, const char *end, uint64_t *digits) noexcept nogil:
    """Append the digits from `at` on to `digits`, which wraps; where they end."""
    cdef unsigned int digit
    while at < end:
        digit = <unsigned char> at[0] - 48u
        if digit > 9:
            break
        digits[0] = digits[0] * 10 + digit
        at += 1
    return at


cdef inline Reading _read(const char *text, Py_ssize_t size, float *value) noexcept nogil:
    cdef const char *at = text
    cdef const char *end = text + size
    cdef const char *first
    cdef uint64_t digits = 0
    cdef unsigned int digit
    cdef Py_ssize_t count, power = 0
    cdef bint negative = at < end and at[0] == b'-', minus, cut = False
    cdef int exponent = 0
    cdef double wide, below, above
    cdef float narrow
    if negative:
        at += 1
    first = at
    at = _take_digits(at, end, &digits)
    count = at - first
    if at < end and at[0] == b'.':
        at += 1
        first = at
        at = _take_digits(at, end, &digits)
        if at == first:
            return NOT_PLAIN
        power = first - at
        count -= power
    elif count == 0:
        return NOT_PLAIN
    if at < end and (at[0] == b'e' or at[0] == b'E'):
        at += 1
        minus = at < end and at[0] == b'-'
        if at < end and (at[0] == b'-' or at[0] == b'+'):
            at += 1
        if at == end:
            return NOT_PLAIN
        while at < end:
            digit = <unsigned char> at[0] - 48u
            if digit > 9:
                return NOT_PLAIN
            if exponent < EXPONENT_MAX:
                exponent = exponent * 10 + <int> digit
            at += 1
        power += -exponent if minus else exponent
    if at != end:
        return NOT_PLAIN
    if not DOUBLES_ARE_DOUBLES:
        return OPEN
    if count > DIGITS_MAX:
        digits = _leading(text, end, &power, &cut)
    if digits == 0:
        narrow = 0
    else:
        if power < -POWER_MAX or power > POWER_MAX or exponent >= EXPONENT_MAX:
            return OPEN
        wide = <double> digits
        wide = wide / POWERS_OF_TEN[-power] if power < 0 else wide * POWERS_OF_TEN[power]
        narrow = <float> wide
        if cut or digits > EXACT_MAX or power < -EXACT_POWER_MAX or power > EXACT_POWER_MAX:
            below = wide - wide * MARGIN
            above = wide + wide * MARGIN
            if <float> below != <float> above:
                return OPEN
        if not _is_finite(narrow):
            return NOT_PLAIN
    value[0] = -narrow if negative else narrow
    return SURE


cdef uint64_t _leading(const char *text, const char *end, Py_ssize_t *power, bint *cut) noexcept nogil:
    """The first `DIGITS_MAX` digits that count of a number of the grammar; `power` grows by those that are cut off."""
    cdef uint64_t digits = 0
    cdef int taken = 0
    while text < end and text[0] != b'e' and text[0] != b'E':
        if text[0] != b'-' and text[0] != b'.' and (taken or text[0] != b'0'):
            if taken < DIGITS_MAX:
                digits = digits * 10 + (<unsigned char> text[0] - 48u)
                taken += 1
            else:
                power[0] += 1
                cut[0] = True
        text += 1
    return digits


cdef inline bint _is_finite(float value) noexcept nogil:
    return value - value == 0


cdef inline void _store(char *target, float value) noexcept nogil:
    """Little-endian, whatever the machine is."""
    cdef uint32_t bits
    memcpy(&bits, &value, 4)
    target[0] = bits & 0xFF
    target[1] = bits >> 8 & 0xFF
    target[2] = bits >> 16 & 0xFF
    target[3] = bits >> 24
