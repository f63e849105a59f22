cimport cython

cdef long long CORES_USED, MEMORY_USED, SLOTS_USED


cdef class CardCharges:
    cdef public long long[:, :, ::1] block

    cpdef void add(self, long long row, long long column, long long memory, long long cores, long long slots) noexcept
    cpdef void put(self, long long row, long long field, long long column, long long value) noexcept


cdef class Amounts:
    cdef public long long[:, ::1] allocatable, used

    cpdef void add(self, long long row, long long column, long long amount) noexcept
    @cython.locals(at=cython.Py_ssize_t, column=cython.longlong)
    cpdef bint fits(self, long long row, long long[::1] columns, long long[::1] wanted) noexcept
