cimport cython

from deviceshare.kernels.card_selector cimport CardSelector
from deviceshare.kernels.geometry_tables cimport GeometryTables

cdef long long _UNITS, CARD, CORES_USED, CUT_BITS, UNPARTITIONED, KIND, MEMORY_USED, INFEASIBLE, SLOTS_USED, _MAX_WASTE, _MAX_ORDER


cdef class InstanceSelector(CardSelector):
    cdef public GeometryTables geometries
    cdef public long long[::1] memory, needed, fresh_detail, fresh_size, shares
    cdef public unsigned char[::1] usable
    cdef public long long cut_field, used_field, cores, size, lost, largest_card
    cdef public bint alone, careful, first, reused
    cdef public long long[:, ::1] own, shares_before, cores_before

    @cython.locals(
        kind=cython.longlong, cut=cython.longlong, used=cython.longlong, number=cython.longlong,
        position=cython.longlong, detail=cython.longlong,
    )
    cdef long long look(self, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.locals(shares=cython.longlong, cores=cython.longlong)
    cdef bint has_room(self, Py_ssize_t row, Py_ssize_t column, long long kind) noexcept
    @cython.locals(
        column=cython.Py_ssize_t, kind=cython.longlong, detail=cython.longlong,
        key=cython.longlong, loss=cython.longlong,
    )
    cdef int rank(self, Py_ssize_t row) except -1
    @cython.locals(
        column=cython.Py_ssize_t, at=cython.Py_ssize_t, used=cython.double, size=cython.double, given=cython.double
    )
    cdef int rate(self, Py_ssize_t row) except -1
    @cython.locals(instance=cython.longlong, bit=cython.longlong)
    cdef void charge(self, Py_ssize_t row, Py_ssize_t column, long long detail, long long sign) noexcept
    @cython.locals(
        column=cython.Py_ssize_t, kind=cython.longlong, memory=cython.longlong, instance=cython.longlong,
        number=cython.longlong, size=cython.longlong, part=cython.longlong, usable=cython.longlong,
        waste=cython.longlong, unit=cython.longlong, used=cython.longlong, free=cython.longlong, index=cython.Py_ssize_t,
        position=cython.longlong, share=cython.double,
    )
    cdef double misfit(self, Py_ssize_t row, Py_ssize_t at) except? -1.0
    @cython.locals(
        row=cython.Py_ssize_t, column=cython.Py_ssize_t, kind=cython.longlong, cut=cython.longlong, used=cython.longlong
    )
    cpdef void show(
        self, unsigned char[:, ::1] found, unsigned char[:, ::1] reused,
        long long[:, ::1] free,
    ) noexcept
