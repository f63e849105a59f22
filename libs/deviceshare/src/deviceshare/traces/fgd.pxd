cimport cython

from deviceshare.traces.nodes cimport TracePods
from deviceshare.traces.policy cimport TracePolicy

cdef long long CARD


@cython.locals(score=cython.longlong)
cpdef double points(double less) except? -1.0


@cython.final
cdef class Typical:
    cdef public Py_ssize_t size, levels
    cdef public double[::1] shares
    cdef public long long[::1] cpu, count, level, position
    cdef public unsigned char[:, ::1] allowed


cdef class Fgd(TracePolicy):
    cdef public Typical typical
    cdef public long long[::1] seen, free, counts, sums
    cdef public double[::1] before

    @cython.locals(row=cython.Py_ssize_t, column=cython.Py_ssize_t, other=cython.Py_ssize_t, before=cython.double,
                   score=cython.double, best=cython.double, free=cython.longlong, left=cython.longlong, known=cython.bint)
    cdef double rate(self, TracePods pods, Py_ssize_t row) except? -1.0
    cdef double before_of(self, Py_ssize_t row) except? -1.0
    @cython.locals(
        at=cython.Py_ssize_t, column=cython.Py_ssize_t, free=cython.longlong, model=cython.longlong,
        fitting=cython.longlong, total=cython.longlong, level=cython.longlong, share=cython.double,
        lacks_both=cython.double, lacks_cards=cython.double, lacks_cpu=cython.double, no_cards=cython.double,
        no_cards_cpu=cython.double, no_model=cython.double,
    )
    cpdef double fragmentation(self, Py_ssize_t row, long long cpu) except? -1.0
