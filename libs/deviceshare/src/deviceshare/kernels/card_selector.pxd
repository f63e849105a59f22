cimport cython

from deviceshare.kernels.card_order cimport CardOrder
from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport NodeAmounts, CardCharges
from deviceshare.kernels.node_fragmentation cimport NodeFragmentation

cdef long long CORES_USED, EVERY_NODE, INFEASIBLE, KIND, MEMORY_USED, SLOTS_USED, _PREFERRED


cpdef bint better(double score, double waste, double than, double than_waste) noexcept


cdef class CardSelector:
    cdef public CardCharges cards
    cdef public CardOrder order
    cdef public Py_ssize_t count, held, scored
    cdef public long long[::1] columns, details, keys, notes
    cdef public double[::1] terms
    cdef public double waste
    cdef public object equivalence_key
    cdef public str offers
    cdef public long long offered
    cdef public double fullness, emptiness
    cdef public long long by_memory, by_shares, by_column
    cdef public bint whole_node, restricted, preferring
    cdef public long long[::1] capacity, taken
    cdef public NodeFragmentation fragmentation
    cdef public bint scoring_fragmentation, least_fragmented_first, keys_break_ties, takes_amounts, fitting
    cdef public long long taken_cores, taken_cpu
    cdef public double steps
    cdef public unsigned char[:, ::1] allowed, preferred

    @cython.locals(at=cython.Py_ssize_t, row=cython.longlong, score=cython.double)
    cdef void answer(self, Changes changes, Py_ssize_t count, NodeAmounts amounts) except *
    @cython.final
    @cython.locals(column=cython.longlong)
    cdef bint is_offered(self, NodeAmounts amounts, Py_ssize_t row) noexcept
    @cython.locals(measured=cython.bint)
    cdef bint pick(self, Py_ssize_t row) except? -1
    cdef int rank(self, Py_ssize_t row) except -1
    cdef int rate(self, Py_ssize_t row) except -1
    @cython.final
    cdef void add_term(self, double term) noexcept
    @cython.final
    @cython.locals(shares=cython.longlong, column=cython.Py_ssize_t)
    cdef double node_emptiness(self, Py_ssize_t row) noexcept
    @cython.final
    @cython.locals(column=cython.Py_ssize_t, capacity=cython.longlong, used=cython.double, size=cython.double)
    cdef double node_fullness(self, Py_ssize_t row, double used) noexcept
    @cython.locals(column=cython.Py_ssize_t)
    cdef void restrict(self, Py_ssize_t row) noexcept
    @cython.locals(column=cython.Py_ssize_t)
    cdef void prefer(self, Py_ssize_t row) noexcept
    @cython.locals(
        column=cython.Py_ssize_t, first=cython.Py_ssize_t, at=cython.Py_ssize_t, key=cython.longlong, least=cython.longlong
    )
    cdef bint take(self) noexcept
    @cython.locals(
        best=cython.Py_ssize_t, top=cython.double, found=cython.double, column=cython.Py_ssize_t, level=cython.bint,
        plain=cython.bint, taken=cython.longlong,
    )
    cdef bint take_least_fragmented(self, Py_ssize_t row) except? -1
    @cython.locals(other=cython.Py_ssize_t, known=cython.bint)
    cdef bint is_known(self, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.locals(field=cython.Py_ssize_t)
    cdef bint is_same(self, Py_ssize_t row, Py_ssize_t column, Py_ssize_t other) noexcept
    @cython.locals(at=cython.Py_ssize_t, found=cython.double)
    cdef double steps_of_pick(self, Py_ssize_t row) except? -1.0
    @cython.locals(kind=cython.longlong)
    cdef void charge(self, Py_ssize_t row, Py_ssize_t column, long long detail, long long sign) noexcept
    cdef double misfit(self, Py_ssize_t row, Py_ssize_t at) except? -1.0
    @cython.locals(total=cython.double, at=cython.Py_ssize_t)
    cdef double score(self) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cpdef list chosen(self)
    @cython.locals(row=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef void pick_rows(
        self, unsigned char[::1] fits, long long[:, ::1] columns,
        long long[:, ::1] details, double[:, ::1] terms, double[::1] waste,
    ) except *
