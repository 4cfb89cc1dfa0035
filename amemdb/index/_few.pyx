"""A few facts, ranked exactly, without an object for each step. The reference is `amemdb.index.few`.

Keys are the reference's, bit by bit. A product, a difference, a quotient and a root of two doubles are what IEEE 754
says, whoever computes them; a sum of many depends on the order, which is numpy's own affair. So the products are made
here, into a matrix of numpy's, and numpy sums its rows.

Rows lie anywhere in a matrix of hundreds of megabytes, and so does what the tables know of them: the processor is told
of each row as soon as it is known, and fetches it while the next one is looked up.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.math cimport sqrt

import numpy as np

from amemdb.index import few
from amemdb.index.similarity import COSINE, EUCLIDEAN

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef enum:
    ROWS_MAX = 256  # more are the reference's
    LINE_BYTES = 64  # of a line of the processor's cache
    FETCHED_BYTES_MAX = 192  # of a row; the rest follows by itself

cdef object _empty = np.empty
cdef object _sum = np.add.reduce
cdef object _float64 = np.float64
cdef object _plain_living = few.living
cdef object _plain_hits_of = few.hits_of


def living(
    fact_ids,
    dict row_of,
    list blocks,
    Py_ssize_t block_rows,
    const long long[::1] expiries,
    long long now_ms,
    Py_ssize_t count_max,
    is_among,
):
    """See `few.living`. The rows are on their way from memory while the next ones are looked up."""
    cdef list found = []
    cdef PyObject *row
    cdef long long expire_at_ms
    cdef Py_buffer view
    cdef Py_ssize_t place, at, row_bytes
    for fact_id in fact_ids:
        row = PyDict_GetItem(row_of, fact_id)
        if row == NULL:
            continue
        place = <Py_ssize_t> <object> row
        PyObject_GetBuffer(blocks[place // block_rows], &view, PyBUF_ND)
        row_bytes = view.shape[1] * view.itemsize
        for at in range(0, min(row_bytes, FETCHED_BYTES_MAX), LINE_BYTES):
            __builtin_prefetch(<const char *> view.buf + (place % block_rows) * row_bytes + at)
        PyBuffer_Release(&view)
        expire_at_ms = expiries[place]
        if 0 < expire_at_ms <= now_ms or (is_among is not None and not is_among(fact_id)):
            continue
        found.append(fact_id)
        if len(found) == count_max:
            break
    return found


cdef struct Ranked:
    double key
    double similarity
    long long fact_id


def hits_of(
    fact_ids,
    dict row_of,
    list blocks,
    Py_ssize_t block_rows,
    const double[::1] squares,
    const long long[::1] expiries,
    query,
    double minimum,
    long long now_ms,
):
    """See `few.hits_of`."""
    cdef list ids = list(fact_ids)
    cdef Py_ssize_t count = len(ids), kept = 0, index, at
    cdef Py_ssize_t rows[ROWS_MAX]
    cdef const float *vectors[ROWS_MAX]
    cdef Ranked ranked[ROWS_MAX]
    cdef Ranked one
    cdef const double[::1] asked = query.vector
    cdef const double[::1] sums
    cdef Py_ssize_t dim = asked.shape[0]
    cdef double query_squares = query.squares, key
    cdef bytes metric = query.metric
    cdef bint is_cosine = metric == COSINE, is_euclidean = metric == EUCLIDEAN
    cdef PyObject *row
    cdef long long expire_at_ms
    if not count:
        return []
    if count > ROWS_MAX or not _find(ids, row_of, blocks, block_rows, dim, rows, vectors):
        return _plain_hits_of(
            ids, row_of, blocks, block_rows, np.asarray(squares), np.asarray(expiries), query, minimum, now_ms
        )
    sums = _sums(vectors, count, asked, is_euclidean)
    for index in range(count):
        key = sums[index]
        if is_euclidean:
            key = -sqrt(key)
        elif is_cosine:
            key = key / sqrt(squares[rows[index]] * query_squares)
            if key > 1.0:
                key = 1.0
            elif key < -1.0:
                key = -1.0
        one.key = key
        one.similarity = 1.0 / (1.0 - key) if is_euclidean else key
        expire_at_ms = expiries[rows[index]]
        if not one.similarity >= minimum or 0 < expire_at_ms <= now_ms:
            continue
        one.fact_id = ids[index]
        at = kept
        while at and (ranked[at - 1].key < key or (ranked[at - 1].key == key and ranked[at - 1].fact_id > one.fact_id)):
            ranked[at] = ranked[at - 1]
            at -= 1
        ranked[at] = one
        kept += 1
    return [(ranked[index].similarity, ranked[index].fact_id) for index in range(kept)]


cdef bint _find(
    list ids, dict row_of, list blocks, Py_ssize_t block_rows, Py_ssize_t dim, Py_ssize_t *rows, const float **vectors
) except -1:
    """Where the vectors of these facts lie; 0 if they are not float32."""
    cdef Py_ssize_t index, row
    cdef const float *begin
    cdef Py_buffer view
    cdef bint narrow
    for index in range(len(ids)):
        row = <Py_ssize_t> row_of[ids[index]]
        rows[index] = row
        PyObject_GetBuffer(blocks[row // block_rows], &view, PyBUF_ND | PyBUF_FORMAT)
        narrow = view.itemsize == sizeof(float) and view.format[0] == b"f"
        begin = <const float *> view.buf + (row % block_rows) * dim
        PyBuffer_Release(&view)  # the list of blocks keeps it where it is
        if not narrow:
            return 0
        vectors[index] = begin
    return 1


cdef object _sums(const float **vectors, Py_ssize_t count, const double[::1] asked, bint apart):
    """By row the sum of its products with `asked`, or of the squares of the differences."""
    cdef Py_ssize_t dim = asked.shape[0], index, place, first, last
    cdef Py_ssize_t step = max(1, <Py_ssize_t> few.PART_FLOATS // dim)
    cdef const float *vector
    cdef const double *query = &asked[0]
    cdef double difference
    cdef double *to
    cdef double[:, ::1] part
    cdef list parts = []
    for first in range(0, count, step):
        last = min(count, first + step)
        products = _empty((last - first, dim), _float64)
        part = products
        for index in range(first, last):
            vector = vectors[index]
            to = &part[index - first, 0]
            if apart:
                for place in range(dim):
                    difference = <double> vector[place] - query[place]
                    to[place] = difference * difference
            else:
                for place in range(dim):
                    to[place] = <double> vector[place] * query[place]
        parts.append(_sum(products, 1))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
