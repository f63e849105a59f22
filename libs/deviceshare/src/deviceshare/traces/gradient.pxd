cimport cython

from deviceshare.traces.nodes cimport TracePods
from deviceshare.traces.policy cimport TracePolicy

cdef long long CARD


@cython.final
cdef class Typical:
    cdef public Py_ssize_t size, levels
    cdef public double[::1] shares
    cdef public double cards_per_cpu
    cdef public long long[::1] cpu, count, level, position
    cdef public unsigned char[:, ::1] allowed


cdef class GradientPolicy(TracePolicy):
    cdef public Typical typical
    cdef public long long[::1] seen, free, counts, sums
    cdef public double[::1] before

    @cython.locals(
        column=cython.Py_ssize_t, cpu=cython.longlong, before=cython.double, left=cython.longlong, free=cython.longlong,
        score=cython.double, best=cython.double,
    )
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0
    @cython.locals(other=cython.Py_ssize_t, known=cython.bint)
    cdef bint is_known(self, Py_ssize_t column) noexcept
    @cython.locals(column=cython.Py_ssize_t)
    cdef void load(self, Py_ssize_t row) noexcept
    cdef double before_of(self, Py_ssize_t row) except? -1.0
    @cython.locals(at=cython.Py_ssize_t, column=cython.Py_ssize_t, free=cython.longlong, total=cython.longlong)
    cdef long long count_free(self, Py_ssize_t row) noexcept
    cpdef double fragmentation(self, Py_ssize_t row, long long cpu) except? -1.0
    cdef double points(self, double less) except? -1.0
