cimport cython

cdef long long UNLABELLED


@cython.final
cdef class TopologyTerm:
    cdef public long long[::1] counts, of_row, of_group
    cdef public bint by_row, of_rows
    cdef public long long least, most, cap
    cdef public double points, more
    cdef public Py_ssize_t slot
    cdef public unsigned char[::1] marks

    @cython.locals(domain=cython.longlong, pods=cython.longlong)
    cpdef long long of(self, Py_ssize_t row) noexcept
    @cython.locals(domain=cython.longlong)
    cpdef long long of_groups(self, Py_ssize_t group) noexcept
    cpdef bint excludes(self, long long pods) noexcept
