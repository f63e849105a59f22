cimport cython

from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport CardCharges, NodeAmounts
from deviceshare.kernels.free_cards cimport FreeCards, steps
from deviceshare.kernels.geometry_tables cimport GeometryTables
from deviceshare.kernels.typical cimport Typical

cdef long long CARD, CORES_USED, KIND, MEMORY_USED, SLOTS_USED


@cython.final
cdef class CardParts:
    cdef public long long[::1] memory, cores, slots
    cdef public unsigned char[::1] partitioned
    cdef public GeometryTables geometries
    cdef public long long cut_field, used_field

    @cython.locals(memory=cython.longlong, cores=cython.longlong, free=cython.longlong)
    cdef long long free_part(
        self, Py_ssize_t kind, long long memory_used, long long cores_used, long long slots_used
    ) noexcept


@cython.final
cdef class NodeFragmentation:
    cdef public Changes changes
    cdef public CardCharges cards
    cdef public NodeAmounts amounts
    cdef public long long cpu
    cdef public CardParts parts
    cdef public list typical
    cdef public long long[:, ::1] of
    cdef public long long[::1] seen
    cdef public double[::1] before, unserved
    cdef public double unserved_part
    cdef public FreeCards free
    cdef public long long number, left
    cdef public long long[::1] index

    cpdef double lost_now(self, Py_ssize_t row) except? -1.0
    cdef double steps_by(self, Py_ssize_t row, long long cpu) except? -1.0
    cdef double steps_unserved(self, Py_ssize_t row, long long cpu) except? -1.0
    @cython.locals(number=cython.longlong, typical=Typical)
    cdef Py_ssize_t usable(self, Py_ssize_t row, Py_ssize_t column, Py_ssize_t size) except? -1
    @cython.locals(column=cython.Py_ssize_t, number=cython.longlong, typical=Typical)
    cdef bint begin(self, Py_ssize_t row, long long cpu) except -1
    @cython.locals(after=cython.longlong, before=cython.longlong, typical=Typical)
    cdef double steps_if(self, Py_ssize_t row, Py_ssize_t column, long long memory, long long cores) except? -1.0
    cdef long long free_cpu(self, Py_ssize_t row) noexcept
    @cython.locals(at=cython.Py_ssize_t, row=cython.Py_ssize_t)
    cpdef steps_of_rows(self, long long[:, :, ::1] block, long long[::1] rows, long long cpu)
    @cython.locals(
        left=cython.longlong, lost=cython.double, unserved=cython.double, column=cython.Py_ssize_t, number=cython.longlong, typical=Typical,
    )
    cdef double lost(self, long long[:, :, ::1] block, Py_ssize_t at, Py_ssize_t row, long long cpu) except? -1.0
    @cython.locals(other=cython.Py_ssize_t, first=cython.bint)
    cdef bint is_first(self, Py_ssize_t row, Py_ssize_t column) noexcept
    @cython.locals(column=cython.Py_ssize_t, kind=cython.longlong)
    cdef void load(self, long long[:, :, ::1] block, Py_ssize_t at, Py_ssize_t row, long long number) noexcept
    @cython.locals(
        parts=CardParts, kind=cython.longlong, cut=cython.longlong, used=cython.longlong, memory=cython.longlong,
        largest=cython.longlong, cores=cython.longlong, open_=cython.bint, number=cython.longlong,
        index=cython.Py_ssize_t, position=cython.longlong, size=cython.longlong,
    )
    cdef void load_instances(self, long long[:, :, ::1] block, Py_ssize_t at, Py_ssize_t column) noexcept
