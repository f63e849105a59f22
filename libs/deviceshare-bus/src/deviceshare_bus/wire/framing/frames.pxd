cimport cython


@cython.locals(destination=str)
cpdef bytes publication(str subject, str reply, bytes head, bytes data)
