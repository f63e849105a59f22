from deviceshare.kernels.free_cards cimport steps
from deviceshare_lab.traces.gradient cimport GradientPolicy


cdef class Fragmentation(GradientPolicy):
    cpdef double fragmentation(self, Py_ssize_t row, long long cpu) except? -1.0
    cdef double points(self, double less) except? -1.0
