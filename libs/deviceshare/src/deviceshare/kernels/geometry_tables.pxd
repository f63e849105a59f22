cimport cython


@cython.final
cdef class GeometryTables:
    cdef public long long[::1] base, largest, counts
    cdef public long long[:, ::1] sizes, ranked

    @cython.locals(at=cython.Py_ssize_t, position=cython.longlong)
    cdef long long smallest(self, long long number, long long allowed, long long needed) noexcept
    @cython.locals(at=cython.Py_ssize_t, number=cython.longlong, position=cython.longlong)
    cdef long long free(self, long long kind, long long cut, long long used) noexcept
