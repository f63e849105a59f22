cimport cython

from deviceshare_lab.traces.nodes cimport TraceNodes, TracePods

cdef long long NO_POD


@cython.final
cdef class WaitingPods:
    cdef public TraceNodes nodes
    cdef public list classes, queues
    cdef public long long[::1] heads, skipped
    cdef public long long search, count

    @cython.locals(best=cython.Py_ssize_t, first=cython.longlong, at=cython.Py_ssize_t)
    cpdef Py_ssize_t next_fitting(self, Py_ssize_t row) except -2
    @cython.locals(pods=TracePods)
    cdef bint fits(self, Py_ssize_t at, Py_ssize_t row) except -1
