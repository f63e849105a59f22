cimport cython

from deviceshare.kernels.typical cimport Typical

cdef double _STEP, _UNWANTED, _NO_CPU
cdef long long _MANY


@cython.final
cdef class FreeCards:
    cdef public Py_ssize_t number, parts
    cdef public long long total
    cdef public double unserved
    cdef public long long[::1] free, more, counts, sums

    @cython.locals(at=cython.Py_ssize_t, free=cython.longlong, total=cython.longlong)
    cpdef long long count(self, Typical typical) noexcept
    cpdef double lost(self, Typical typical, Py_ssize_t model, long long cpu) noexcept
    @cython.locals(
        at=cython.Py_ssize_t, total=cython.longlong, level=cython.longlong, lost=cython.double, served=cython.double,
        unserved=cython.double, unwanted=cython.double, was=cython.longlong, now=cython.longlong,
        fewer=cython.longlong, rest=cython.longlong,
    )
    cdef double lost_if(
        self, Typical typical, Py_ssize_t model, long long cpu, long long before, long long after
    ) noexcept


@cython.locals(rounded=cython.longlong)
cpdef double steps(double less) noexcept
