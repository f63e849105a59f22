cimport cython

from deviceshare.kernels.changes cimport Changes
from deviceshare.kernels.charges cimport CardCharges

cdef long long CORES_USED, KIND, MEMORY_USED, SLOTS_USED


@cython.final
cdef class CardOrder:
    cdef public CardCharges charges
    cdef public long long by_memory, by_shares, by_column
    cdef public long long[:, :, ::1] cards
    cdef public long long[::1] times, keys, columns

    @cython.locals(at=cython.Py_ssize_t, row=cython.longlong, rows=cython.Py_ssize_t, columns=cython.Py_ssize_t)
    cdef void refresh(self, Changes changes, Py_ssize_t count) except *
    @cython.locals(kept=cython.Py_ssize_t, column=cython.longlong, at=cython.Py_ssize_t, key=cython.longlong)
    cdef void sort(self, Py_ssize_t row) noexcept
