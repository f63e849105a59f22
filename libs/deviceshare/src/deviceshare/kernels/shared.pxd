cimport cython

from deviceshare.kernels.picking cimport Picker

cdef long long CORES_USED, KIND, MEMORY_USED, SLOTS_USED, NO_LIMIT


cdef class SharedCards(Picker):
    cdef public long long[::1] sizes, asked, most_memory, most_shares
    cdef public long long most_cores, by_memory, by_slots, by_column
    cdef public bint filling, spreading

    @cython.locals(
        column=cython.Py_ssize_t, kind=cython.longlong, memory_used=cython.longlong, shares=cython.longlong,
        key=cython.longlong, at=cython.Py_ssize_t, used=cython.double, size=cython.double,
    )
    cdef bint pick(self, long long[:, :, ::1] block, Py_ssize_t row) except? -1


@cython.locals(column=cython.Py_ssize_t, shares=cython.longlong)
cpdef double spread_score(long long[:, :, ::1] block, Py_ssize_t row) noexcept
