cimport cython

from deviceshare.kernels.picking cimport Picker

cdef long long CORES_USED, KIND, MEMORY_USED, SLOTS_USED, _FINE, _ROOM


cdef class Chips(Picker):
    cdef public long long[::1] sizes, most_memory, most_shares, most_cores, networks
    cdef public unsigned char[::1] of_kind, able
    cdef public long long most_ai_cores, most_ai_cpus, ai_cores_field, ai_cpus_field, shares_field, numbers
    cdef public bint unshared, only_shared, filling, spreading, linked
    cdef public double link_score

    @cython.locals(kind=cython.longlong, slots=cython.longlong, shares=cython.longlong)
    cdef bint has_room(self, long long[:, :, ::1] block, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.locals(
        width=cython.Py_ssize_t, known=cython.bint, column=cython.Py_ssize_t, kind=cython.longlong,
        key=cython.longlong, first=cython.Py_ssize_t,
    )
    cdef bint pick(self, long long[:, :, ::1] block, Py_ssize_t row) except? -1
    @cython.locals(used=cython.double, size=cython.double)
    cdef double share(self, long long[:, :, ::1] block, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.locals(network=cython.longlong, count=cython.longlong, other=cython.Py_ssize_t)
    cdef long long network_order(self, long long[:, :, ::1] block, Py_ssize_t row, Py_ssize_t column) noexcept
