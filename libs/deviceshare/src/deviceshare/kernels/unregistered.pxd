cimport cython

from deviceshare.kernels.card_selector cimport CardSelector

cdef long long KIND


cdef class UnregisteredSelector(CardSelector):
    cdef public unsigned char[::1] registered

    @cython.locals(column=cython.Py_ssize_t)
    cdef bint pick(self, Py_ssize_t row) except? -1
