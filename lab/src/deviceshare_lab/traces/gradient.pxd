cimport cython

from deviceshare.kernels.free_cards cimport FreeCards
from deviceshare.kernels.typical cimport Typical
from deviceshare_lab.traces.nodes cimport TracePods
from deviceshare_lab.traces.policy cimport TracePolicy

cdef long long CARD


cdef class GradientPolicy(TracePolicy):
    cdef public Typical typical
    cdef public FreeCards cards
    cdef public long long[::1] seen
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
    cpdef double fragmentation(self, Py_ssize_t row, long long cpu) except? -1.0
    cdef double points(self, double less) except? -1.0
