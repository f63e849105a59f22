cimport cython


cdef class Changes:
    cdef public long long now, rows, forgotten, mark, last
    cdef public long long[::1] log, found, marks
    cdef public double[::1] keys, waste

    cpdef void touch(self, long long row) noexcept
    cpdef void forget(self) noexcept
    @cython.locals(count=cython.longlong, row=cython.longlong, at=cython.longlong)
    cpdef long long since(self, long long seen) noexcept
