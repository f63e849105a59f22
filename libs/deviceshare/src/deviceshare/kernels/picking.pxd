cimport cython

cdef long long _PREFERRED


cdef class Picker:
    cdef public Py_ssize_t count, held, scored
    cdef public long long[::1] columns, details, keys
    cdef public double[::1] terms
    cdef public double waste
    cdef public str offers
    cdef public long long offered
    cdef public bint restricted, preferring
    cdef public unsigned char[:, ::1] allowed, preferred

    cdef bint pick(self, long long[:, :, ::1] block, Py_ssize_t row) except? -1
    cdef void start(self) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cdef void offer(self, Py_ssize_t row, Py_ssize_t column, long long key, long long detail) noexcept
    @cython.locals(total=cython.double, at=cython.Py_ssize_t)
    cdef double score(self) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cpdef list chosen(self)
    @cython.locals(row=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef void pick_rows(
        self, long long[:, :, ::1] block, unsigned char[::1] fits, long long[:, ::1] columns,
        long long[:, ::1] details, double[:, ::1] terms, double[::1] waste,
    ) except *
