cimport cython

from deviceshare_lab.traces.nodes cimport TracePods
from deviceshare_lab.traces.policy cimport TracePolicy

cdef long long CARD
cdef double _CPU, _CARDS


cdef class BestFit(TracePolicy):
    @cython.locals(part=cython.double, score=cython.longlong)
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0


cdef class DotProd(TracePolicy):
    @cython.locals(product=cython.double, score=cython.longlong)
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0


cdef class GpuPacking(TracePolicy):
    cdef public long long[::1] picked
    @cython.locals(fresh=cython.longlong, percent=cython.longlong, at=cython.Py_ssize_t)
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0
    @cython.locals(
        held=cython.longlong, at=cython.longlong, column=cython.Py_ssize_t, free=cython.longlong, size=cython.longlong
    )
    cdef void pick(self, TracePods pods, Py_ssize_t row) noexcept


cdef class GpuClustering(TracePolicy):
    @cython.locals(base=cython.longlong, kinds=cython.longlong, same=cython.bint)
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0


cdef class AnyNode(TracePolicy):
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0
