"""Decimals as float32, for native code. See `_numbers.pyx`."""

cdef bint float32_of(const char *text, Py_ssize_t size, float *value) noexcept nogil
"""Whether `text` surely is a number of the grammar, finite as float32; `value` is set to it then.

Reads `size` bytes and no more. On False the reference has to decide; that is not to say that there is no such number.
"""
