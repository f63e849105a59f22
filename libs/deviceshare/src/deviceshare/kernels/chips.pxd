cimport cython

from deviceshare.kernels.card_selector cimport CardSelector

cdef long long CORES_USED, KIND, MEMORY_USED, INFEASIBLE, SLOTS_USED, _STEPS, _ROOM


cdef class ChipSelector(CardSelector):
    cdef public long long[::1] sizes, most_memory, most_shares, most_cores, networks
    cdef public unsigned char[::1] of_kind
    cdef public long long most_ai_cores, most_ai_cpus, ai_cores_field, ai_cpus_field, shares_field, numbers
    cdef public bint unshared, only_shared, linked
    cdef public double link_score

    @cython.locals(kind=cython.longlong, slots=cython.longlong, shares=cython.longlong)
    cdef bint has_room(self, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.locals(column=cython.Py_ssize_t, known=cython.bint, kind=cython.longlong, key=cython.longlong)
    cdef int rank(self, Py_ssize_t row) except -1
    @cython.locals(column=cython.Py_ssize_t, other=cython.Py_ssize_t, network=cython.longlong, count=cython.longlong)
    cdef void order_networks(self, Py_ssize_t row) noexcept
    @cython.locals(first=cython.Py_ssize_t, full=cython.double)
    cdef int rate(self, Py_ssize_t row) except -1
    cdef double misfit(self, Py_ssize_t row, Py_ssize_t at) except? -1.0
    @cython.locals(used=cython.double, size=cython.double)
    cdef double share(self, Py_ssize_t row, Py_ssize_t column) noexcept
