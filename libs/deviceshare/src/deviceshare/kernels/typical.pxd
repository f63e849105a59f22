cimport cython


@cython.final
cdef class Typical:
    cdef public Py_ssize_t size, levels
    cdef public double[::1] shares, unwanted
    cdef public double cards_per_cpu
    cdef public long long[::1] cpu, count, level, position, usable
    cdef public unsigned char[:, ::1] allowed
