cimport cython

from deviceshare_bus.wire.framing.received cimport Received

@cython.final
cdef class Parser:
    cdef object _listeners, _failed
    cdef list _pieces
    cdef Py_ssize_t _have, _need

    @cython.locals(
        others=list, line=bytes, subject=bytes, reply=bytes, head=bytes, payload=bytes,
        size=Py_ssize_t, at=Py_ssize_t, need=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t,
        total=Py_ssize_t, head_size=Py_ssize_t, sid=Py_ssize_t,
    )
    cpdef list feed(self, bytes data)


@cython.locals(words=list, with_head=bint, count=Py_ssize_t, head_size=Py_ssize_t, total=Py_ssize_t)
cdef tuple _numbers(bytes line)
cdef Py_ssize_t _number(bytes word) except -1
