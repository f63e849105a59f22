cimport cython

from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport NodeAmounts
from deviceshare.kernels.card_selector cimport CardSelector, better

cdef long long CORES_USED, EVERY_NODE, KIND, MEMORY_USED, NO_LIMIT, INFEASIBLE, SLOTS_USED


cdef class SharedCardSelector(CardSelector):
    cdef public long long[::1] sizes, asked, most_memory, most_shares
    cdef public long long most_cores

    @cython.locals(
        at=cython.Py_ssize_t, row=cython.longlong, rank=cython.Py_ssize_t, kind=cython.longlong,
        memory_used=cython.longlong, score=cython.double, filling=cython.bint, plain=cython.bint,
    )
    cdef void answer(self, Changes changes, Py_ssize_t count, NodeAmounts amounts) except *
    @cython.locals(column=cython.Py_ssize_t)
    cdef int rank(self, Py_ssize_t row) except -1
    @cython.final
    @cython.locals(memory_used=cython.longlong, shares=cython.longlong, full=cython.bint)
    cdef inline long long key(self, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.final
    cdef inline bint is_full(self, long long kind, long long memory_used, long long cores, long long shares) noexcept
    @cython.locals(at=cython.Py_ssize_t, used=cython.double, kind=cython.longlong, memory_used=cython.longlong)
    cdef int rate(self, Py_ssize_t row) except -1
    @cython.final
    @cython.locals(used=cython.double, size=cython.double)
    cdef inline double card_fullness(self, long long kind, long long memory_used) noexcept
