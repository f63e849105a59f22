cimport cython

from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport NodeAmounts, CardCharges

cdef long long EVERY_NODE, INFEASIBLE, SLOTS_USED, _PREFERRED


cpdef bint better(double score, double waste, double than, double than_waste) noexcept


cdef class CardSelector:
    cdef public CardCharges cards
    cdef public Py_ssize_t count, held, scored
    cdef public long long[::1] columns, details, keys, notes
    cdef public double[::1] terms
    cdef public double waste
    cdef public object equivalence_key
    cdef public str offers
    cdef public long long offered
    cdef public bint filling, spreading, restricted, preferring
    cdef public unsigned char[:, ::1] allowed, preferred

    @cython.locals(at=cython.Py_ssize_t, row=cython.longlong, score=cython.double)
    cdef void answer(self, Changes changes, Py_ssize_t count, NodeAmounts amounts) except *
    @cython.final
    @cython.locals(column=cython.longlong)
    cdef bint is_offered(self, NodeAmounts amounts, Py_ssize_t row) noexcept
    cdef bint pick(self, Py_ssize_t row) except? -1
    cdef int rank(self, Py_ssize_t row) except -1
    cdef int rate(self, Py_ssize_t row) except -1
    @cython.locals(shares=cython.longlong, column=cython.Py_ssize_t)
    cdef void rate_spread(self, Py_ssize_t row) noexcept
    @cython.locals(column=cython.Py_ssize_t)
    cdef void restrict(self, Py_ssize_t row) noexcept
    @cython.locals(column=cython.Py_ssize_t)
    cdef void prefer(self, Py_ssize_t row) noexcept
    @cython.locals(
        column=cython.Py_ssize_t, first=cython.Py_ssize_t, at=cython.Py_ssize_t, key=cython.longlong, least=cython.longlong
    )
    cdef bint take(self) noexcept
    @cython.locals(total=cython.double, at=cython.Py_ssize_t)
    cdef double score(self) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cpdef list chosen(self)
    @cython.locals(row=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef void pick_rows(
        self, unsigned char[::1] fits, long long[:, ::1] columns,
        long long[:, ::1] details, double[:, ::1] terms, double[::1] waste,
    ) except *
