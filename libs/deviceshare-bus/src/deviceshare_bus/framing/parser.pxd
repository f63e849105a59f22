cimport cython

from deviceshare_bus.framing.received cimport Received

@cython.final
cdef class Parser:
    cdef object _listeners, _failed
    cdef list _pieces
    cdef Py_ssize_t _have, _need

    @cython.locals(
        others=list, words=list, line=bytes, head=bytes, payload=bytes, reply=bytes,
        size=Py_ssize_t, at=Py_ssize_t, need=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t,
        count=Py_ssize_t, total=Py_ssize_t, head_size=Py_ssize_t, sid=Py_ssize_t, with_head=bint,
    )
    cpdef list feed(self, bytes data)


cdef Py_ssize_t _number(bytes word) except -1
