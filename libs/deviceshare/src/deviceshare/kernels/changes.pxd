cimport cython

cdef int _NO_ROW


@cython.final
cdef class Changes:
    cdef public long long now, rows, latest
    cdef public long long[::1] times, older, newer, found
    cdef public double[::1] keys, waste

    @cython.locals(newer=cython.longlong, older=cython.longlong)
    cpdef void touch(self, long long row) noexcept
    @cython.locals(row=cython.longlong)
    cpdef void touch_all(self) noexcept
    @cython.locals(count=cython.longlong, row=cython.longlong)
    cpdef long long since(self, long long seen) noexcept
