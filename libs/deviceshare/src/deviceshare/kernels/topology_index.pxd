cimport cython

from deviceshare.kernels.best cimport Best
from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.topology_term cimport TopologyTerm

cdef extern from "math.h":
    cpdef double log(double x) noexcept

cdef double NEVER
cdef long long UNLABELLED
cdef int _BITS


@cython.final
cdef class TopologyIndex:
    cdef public Best best
    cdef public long long seen
    cdef public Py_ssize_t groups, levels, used
    cdef public bint overflow
    cdef public list filters, nearby, spread, by_row
    cdef public double nearby_weight, spread_weight, total
    cdef public long long[:, ::1] counted, able
    cdef public long long[::1] group_of, first, place
    cdef public int[::1] row_at
    cdef public double[::1] keys
    cdef public unsigned char[::1] level_of, stale
    cdef public double[:, ::1] tops, nexts, near, far
    cdef public int[:, ::1] winners
    cdef public long long feasible
    cdef public unsigned char[:, ::1] open

    @cython.locals(at=cython.Py_ssize_t, count=cython.longlong)
    cpdef void refresh(self, Changes changes) except *
    @cython.locals(
        terms=cython.Py_ssize_t, at=cython.Py_ssize_t, level=cython.Py_ssize_t, same=cython.bint, term=TopologyTerm
    )
    cdef Py_ssize_t level(self, Py_ssize_t row) except -1
    @cython.locals(
        place=cython.Py_ssize_t, block=cython.Py_ssize_t, group=cython.Py_ssize_t, before=cython.double,
        key=cython.double, was=cython.Py_ssize_t, level=cython.Py_ssize_t, top=cython.double,
    )
    cdef void put(self, Py_ssize_t row) except *
    @cython.locals(place=cython.Py_ssize_t, level=cython.Py_ssize_t, key=cython.double, top=cython.double)
    cdef void compare(self, Py_ssize_t block) noexcept
    cdef long long pods(self, TopologyTerm term, Py_ssize_t group, Py_ssize_t level) noexcept
    @cython.locals(
        best=cython.Py_ssize_t, most=cython.double, group=cython.Py_ssize_t, level=cython.Py_ssize_t,
        near=cython.double, far=cython.double, block=cython.Py_ssize_t, top=cython.double, total=cython.double,
        row=cython.Py_ssize_t,
    )
    cpdef Py_ssize_t find(self) except -2
    @cython.locals(
        best=cython.Py_ssize_t, group=cython.Py_ssize_t, near=cython.double, far=cython.double, place=cython.Py_ssize_t
    )
    cdef Py_ssize_t first_of(self, Py_ssize_t block, Py_ssize_t level, double wanted) noexcept
    @cython.locals(
        group=cython.Py_ssize_t, level=cython.Py_ssize_t, excluded=cython.bint, at=cython.Py_ssize_t, term=TopologyTerm
    )
    cdef void open_cells(self) except *
    @cython.locals(
        least=cython.double, most=cython.double, first=cython.bint, group=cython.Py_ssize_t, level=cython.Py_ssize_t,
        raw=cython.double, at=cython.Py_ssize_t, term=TopologyTerm, pods=cython.longlong, points=cython.longlong,
    )
    cdef void score_nearby(self) except *
    @cython.locals(
        rows=cython.longlong, at=cython.Py_ssize_t, term=TopologyTerm, domain=cython.Py_ssize_t,
        group=cython.Py_ssize_t, level=cython.Py_ssize_t, size=cython.longlong,
    )
    cdef void measure_spread(self) except *
    @cython.locals(at=cython.Py_ssize_t, term=TopologyTerm)
    cdef bint labelled(self, Py_ssize_t group, Py_ssize_t level) except -1
    @cython.locals(
        least=cython.double, most=cython.double, first=cython.bint, group=cython.Py_ssize_t, level=cython.Py_ssize_t,
        raw=cython.double, at=cython.Py_ssize_t, term=TopologyTerm, points=cython.longlong,
    )
    cdef void score_spread(self) except *
