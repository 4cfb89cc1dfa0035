"""The compiled twin of `traffic`."""


cdef class Traffic:
    cdef public long long input_bytes, output_bytes
