cimport cython

from deviceshare.traces.gradient cimport GradientPolicy, Typical

cdef double _STEP, _NO_MODEL, _NO_CPU
cdef long long _MANY


cdef class Fragmentation(GradientPolicy):
    @cython.locals(
        at=cython.Py_ssize_t, model=cython.longlong, total=cython.longlong, lost=cython.double, fed=cython.double,
        level=cython.longlong, typical=Typical,
    )
    cpdef double fragmentation(self, Py_ssize_t row, long long cpu) except? -1.0
    @cython.locals(steps=cython.longlong)
    cdef double points(self, double less) except? -1.0
