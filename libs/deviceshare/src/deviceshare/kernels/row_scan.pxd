cimport cython

from deviceshare.kernels.best cimport Best

cdef double NEVER
cdef int _TABLE


@cython.final
cdef class RowScan:
    cdef public Py_ssize_t able
    cdef public double[::1] totals, raw, table
    cdef public unsigned char[::1] skipped

    cpdef void start(self, double[::1] keys) except *
    @cython.locals(
        row=cython.Py_ssize_t, best=cython.Py_ssize_t, top=cython.double, able=cython.Py_ssize_t, key=cython.double
    )
    cpdef Py_ssize_t best_without(
        self, double[::1] keys, long long[::1] of_row, unsigned char[::1] excluded, Best order
    ) noexcept
    @cython.locals(row=cython.Py_ssize_t)
    cpdef void exclude(self, long long[::1] of_row, unsigned char[::1] excluded) noexcept
    @cython.locals(row=cython.Py_ssize_t)
    cpdef void clear(self) noexcept
    @cython.locals(row=cython.Py_ssize_t)
    cpdef void skip(self, long long[::1] of_row) noexcept
    @cython.locals(row=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef Py_ssize_t mark(self, long long[::1] of_row, unsigned char[::1] marks) noexcept
    @cython.locals(row=cython.Py_ssize_t)
    cpdef void add(self, long long[::1] of_row, double[::1] points) noexcept
    @cython.locals(row=cython.Py_ssize_t)
    cpdef void add_counts(self, long long[::1] counts, double factor, double more) noexcept
    @cython.locals(
        row=cython.Py_ssize_t, least=cython.double, most=cython.double, value=cython.double, first=cython.bint,
        points=cython.longlong, at=cython.Py_ssize_t, width=cython.longlong,
    )
    cpdef void add_highest(self, double weight) noexcept
    @cython.locals(
        row=cython.Py_ssize_t, least=cython.double, most=cython.double, value=cython.double, first=cython.bint,
        points=cython.longlong, at=cython.Py_ssize_t, width=cython.longlong,
    )
    cpdef void add_lowest(self, double weight) noexcept
    @cython.locals(
        row=cython.Py_ssize_t, best=cython.Py_ssize_t, top=cython.double, able=cython.Py_ssize_t, total=cython.double
    )
    cpdef Py_ssize_t best(self, Best order) noexcept
