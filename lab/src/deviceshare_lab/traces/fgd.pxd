cimport cython

from deviceshare.kernels.typical cimport Typical
from deviceshare_lab.traces.gradient cimport GradientPolicy


cdef class Fgd(GradientPolicy):
    @cython.locals(
        at=cython.Py_ssize_t, model=cython.longlong, fitting=cython.longlong, total=cython.longlong,
        level=cython.longlong, share=cython.double, typical=Typical,
        lacks_both=cython.double, lacks_cards=cython.double, lacks_cpu=cython.double, no_cards=cython.double,
        no_cards_cpu=cython.double, no_model=cython.double,
    )
    cpdef double fragmentation(self, Py_ssize_t row, long long cpu) except? -1.0
    @cython.locals(score=cython.longlong)
    cdef double points(self, double less) except? -1.0
