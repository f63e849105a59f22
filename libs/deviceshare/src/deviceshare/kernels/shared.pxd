cimport cython

cdef long long CORES_USED, HEALTHY, MEMORY, MEMORY_USED, MODE, SLOTS, SLOTS_USED, TYPE
from deviceshare.kernels.picking cimport Picker

cdef long long _ALL_CORES


cdef class SharedCards(Picker):
    cdef public long long mode, memory, percentage, cores, by_memory, by_slots, by_column
    cdef public bint counted, filling, spreading
    cdef public unsigned char[::1] types

    @cython.locals(column=cython.Py_ssize_t, memory_used=cython.longlong, shares=cython.longlong, key=cython.longlong)
    cpdef bint pick(self, long long[:, :, ::1] block, Py_ssize_t row) except *
    cpdef long long asked(self, long long memory) noexcept
    @cython.locals(cores_used=cython.longlong)
    cpdef bint has_room(self, long long[:, :, ::1] block, Py_ssize_t row, Py_ssize_t column, long long shares) noexcept
    @cython.locals(at=cython.Py_ssize_t, column=cython.Py_ssize_t, size=cython.longlong, used=cython.double)
    cpdef void fill(self, long long[:, :, ::1] block, Py_ssize_t row) noexcept
    @cython.locals(column=cython.Py_ssize_t, shares=cython.longlong)
    cpdef void spread(self, long long[:, :, ::1] block, Py_ssize_t row) noexcept
