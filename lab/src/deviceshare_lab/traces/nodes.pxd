cimport cython

from deviceshare.kernels.changes cimport Changes

cdef long long CARD, WHOLE_CARDS


@cython.final
cdef class TracePods:
    cdef public long long cpu, memory, amount, count, kind, seen
    cdef public unsigned char[::1] allowed
    cdef public double[::1] scores
    cdef public long long[::1] columns


@cython.final
cdef class TraceNodes:
    cdef public Changes changes
    cdef public Py_ssize_t rows
    cdef public long long[::1] cpu, memory, cards, models, total, whole, kinds
    cdef public long long[:, ::1] free, pods
    cdef public long long row
    cdef public unsigned long long taken

    @cython.locals(column=cython.Py_ssize_t, fitting=cython.longlong)
    cpdef bint fits(self, TracePods pods, Py_ssize_t row) noexcept
    @cython.locals(column=cython.Py_ssize_t, best=cython.longlong, least=cython.longlong, free=cython.longlong)
    cpdef long long tightest(self, Py_ssize_t row, long long amount) noexcept
    @cython.locals(
        at=cython.Py_ssize_t, left=cython.longlong, share=cython.bint, taken=cython.ulonglong, bit=cython.ulonglong
    )
    cpdef void take(self, TracePods pods, Py_ssize_t row, long long column) except *
    cpdef void take_cards(self, TracePods pods, Py_ssize_t row, unsigned long long taken) except *
    @cython.locals(kind=cython.longlong)
    cpdef void release(self, TracePods pods, Py_ssize_t row, unsigned long long taken) except *
    cdef long long kind_of(self, TracePods pods) noexcept
    @cython.locals(at=cython.Py_ssize_t, bit=cython.ulonglong)
    cdef void charge_cards(self, Py_ssize_t row, unsigned long long taken, long long amount) noexcept
    cdef void charge(self, Py_ssize_t row, Py_ssize_t column, long long amount) noexcept
