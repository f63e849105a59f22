cimport cython

cdef long long CORES_USED, MEMORY_USED, SLOTS_USED


@cython.final
cdef class CardCharges:
    cdef public long long[:, :, ::1] block
    cdef public long long[::1] models

    cpdef void add(self, long long row, long long column, long long memory, long long cores, long long slots) noexcept
    cpdef void set_usage(self, long long row, long long column, long long memory, long long cores, long long slots) noexcept
    cpdef void put(self, long long row, long long field, long long column, long long value) noexcept


@cython.final
cdef class NodeAmounts:
    cdef public long long[:, ::1] allocatable, used

    cpdef void add(self, long long row, long long column, long long amount) noexcept
