cimport cython

cdef double NEVER
cdef int _BITS


@cython.final
cdef class TieOrder:
    cdef public long long[::1] ranks


@cython.final
cdef class Best:
    cdef public TieOrder order
    cdef public Py_ssize_t rows, able, blocks
    cdef public double[::1] keys, tops
    cdef public float[::1] waste
    cdef public bint wasteful
    cdef public int[::1] winners
    cdef public unsigned char[::1] stale

    @cython.locals(best=cython.Py_ssize_t, row=cython.Py_ssize_t, block=cython.Py_ssize_t, top=cython.double)
    cpdef Py_ssize_t first(self) noexcept
    @cython.locals(key=cython.double)
    cpdef double key(self, Py_ssize_t row) noexcept
    @cython.locals(before=cython.double, block=cython.Py_ssize_t)
    cpdef void put(self, Py_ssize_t row, double key, double waste) except *
    cdef bint levels(self, Py_ssize_t row, Py_ssize_t block) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cpdef void put_rows(self, long long[::1] rows, double[::1] keys, double[::1] wastes) except *
    cpdef bint precedes(self, Py_ssize_t one, Py_ssize_t other) noexcept
    @cython.locals(best=cython.Py_ssize_t, row=cython.Py_ssize_t, last=cython.Py_ssize_t, top=cython.double, key=cython.double)
    cdef void compare(self, Py_ssize_t block) noexcept
