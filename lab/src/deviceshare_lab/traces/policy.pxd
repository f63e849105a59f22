cimport cython

from deviceshare_lab.traces.nodes cimport TraceNodes, TracePods

cdef double NEVER
cdef long long CARD


cdef class TracePolicy:
    cdef public TraceNodes nodes
    cdef public long long column

    @cython.locals(best=cython.longlong, row=cython.Py_ssize_t, top=cython.double)
    cpdef long long place(self, TracePods pods) except -2
    @cython.locals(count=cython.longlong, at=cython.Py_ssize_t, row=cython.longlong)
    cpdef long long refresh(self, TracePods pods) except -1
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0
    cdef long long fitting_card(self, TracePods pods, Py_ssize_t row) noexcept
