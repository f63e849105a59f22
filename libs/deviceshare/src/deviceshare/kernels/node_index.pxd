cimport cython

from deviceshare.kernels.best cimport Best, TieOrder
from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport NodeAmounts, CardCharges
from deviceshare.kernels.card_selector cimport CardSelector, better
from deviceshare.kernels.node_fragmentation cimport NodeFragmentation
from deviceshare.kernels.scores cimport NodeScores

cdef double NEVER

@cython.locals(rounded=cython.longlong, value=cython.double)
cpdef double weighted_score(double score, double weight, double tie_break_weight) noexcept


@cython.final
cdef class NodeIndex:
    cdef public Best best
    cdef public long long seen, facts_version
    cdef public double weight, tie_break_weight, score
    cdef public unsigned char[::1] admitted, models
    cdef public long long[::1] columns, wanted, device_columns, most
    cdef public long long short_rows
    cdef public unsigned char[::1] short
    cdef public bint restricts_models
    cdef public NodeFragmentation fragmentation
    cdef public long long taken_cpu
    cdef public NodeScores scores
    cdef public tuple selectors

    @cython.locals(at=cython.Py_ssize_t, row=cython.longlong, count=cython.longlong, left=cython.longlong)
    cpdef long long narrow(self, Changes changes, NodeAmounts amounts, CardCharges cards) except *
    @cython.locals(row=cython.Py_ssize_t, short=cython.bint)
    cpdef void cover(self, long long[::1] columns, long long[::1] asked, NodeAmounts amounts) except *
    cdef void mark(self, Py_ssize_t row, bint short) except *
    cpdef void put(self, Py_ssize_t row, double key, double waste) except *
    @cython.locals(
        at=cython.Py_ssize_t, row=cython.longlong, number=cython.Py_ssize_t, key=cython.double, selector=CardSelector
    )
    cpdef void evaluate(self, Changes changes, long long count, NodeAmounts amounts) except *
    @cython.locals(
        number=cython.Py_ssize_t, chosen=cython.Py_ssize_t, score=cython.double, waste=cython.double, selector=CardSelector
    )
    cpdef Py_ssize_t choose(self, NodeAmounts amounts, Py_ssize_t row) except? -2


@cython.locals(at=cython.Py_ssize_t, column=cython.longlong)
cdef inline bint has_free(
    NodeAmounts amounts, Py_ssize_t row, long long[::1] columns, long long[::1] asked
) noexcept
