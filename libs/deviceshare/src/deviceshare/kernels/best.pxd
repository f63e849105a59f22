cimport cython

cdef double NEVER


cdef class Order:
    cdef public long long[::1] ranks


cdef class Best:
    cdef public Order order
    cdef public Py_ssize_t rows, able
    cdef public double[::1] keys, waste
    cdef public bint wasteful
    cdef public int[::1] winners

    @cython.locals(winner=cython.Py_ssize_t)
    cpdef Py_ssize_t first(self) noexcept
    @cython.locals(key=cython.double)
    cpdef double key(self, Py_ssize_t row) noexcept
    @cython.locals(before=cython.double)
    cpdef void put(self, Py_ssize_t row, double key, double waste) except *
    @cython.locals(at=cython.Py_ssize_t)
    cpdef void put_rows(self, long long[::1] rows, double[::1] keys, double[::1] wastes) except *
    @cython.locals(first=cython.double, second=cython.double)
    cdef bint beats(self, Py_ssize_t one, Py_ssize_t other) noexcept
    @cython.locals(first=cython.double, second=cython.double, rank=cython.longlong, behind=cython.longlong)
    cpdef bint precedes(self, Py_ssize_t one, Py_ssize_t other) noexcept
    @cython.locals(at=cython.Py_ssize_t, winner=cython.int)
    cdef void play(self, Py_ssize_t row) noexcept
    @cython.locals(one=cython.Py_ssize_t, other=cython.Py_ssize_t)
    cdef int match(self, Py_ssize_t at) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cdef void play_all(self) noexcept
