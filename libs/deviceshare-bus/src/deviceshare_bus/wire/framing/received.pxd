cimport cython


@cython.final
cdef class Received:
    cdef public str subject, reply
    cdef public bytes data, head

    @cython.locals(at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, head=bytes)
    cpdef bytes field(self, bytes name)

    @cython.locals(tokens=list, count=Py_ssize_t, at=Py_ssize_t)
    cpdef tuple delivery(self)
