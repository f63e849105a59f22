cimport cython

from deviceshare.kernels.best cimport Best, Order
from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport Amounts, CardCharges
from deviceshare.kernels.picking cimport Picker, better
from deviceshare.kernels.scores cimport NodeScores

cdef double NEVER

@cython.locals(rounded=cython.longlong, value=cython.double)
cpdef double worth(double score, double weight, double fine) noexcept


@cython.final
cdef class Standing:
    cdef public Best best
    cdef public long long seen, met
    cdef public double weight, fine, score
    cdef public unsigned char[::1] admitted, models
    cdef public long long[::1] columns, wanted
    cdef public bint choosy
    cdef public NodeScores scores
    cdef public tuple pickers

    @cython.locals(at=cython.Py_ssize_t, row=cython.longlong, count=cython.longlong, left=cython.longlong)
    cpdef long long narrow(self, Changes changes, Amounts amounts, CardCharges cards) except *
    @cython.final
    @cython.locals(at=cython.Py_ssize_t, column=cython.longlong)
    cdef inline bint suffices(self, Amounts amounts, Py_ssize_t row) noexcept
    cpdef void put(self, Py_ssize_t row, double key, double waste) except *
    @cython.locals(
        at=cython.Py_ssize_t, number=cython.Py_ssize_t, key=cython.double, picker=Picker
    )
    cpdef void evaluate(self, Changes changes, long long count, Amounts amounts) except *
    @cython.locals(
        number=cython.Py_ssize_t, chosen=cython.Py_ssize_t, score=cython.double, waste=cython.double, picker=Picker
    )
    cpdef Py_ssize_t choose(self, Amounts amounts, Py_ssize_t row) except? -2
