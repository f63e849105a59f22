cimport cython

from deviceshare.kernels.charges cimport NodeAmounts

cdef double NEVER
cdef long long NO_LIMIT

cdef extern from "math.h":
    cpdef double fabs(double x) noexcept
    cpdef double sqrt(double x) noexcept


@cython.final
cdef class NormalizedScore:
    cdef public long long weight, highest
    cdef public bint moved, reverse
    cdef public int[::1] values
    cdef public long long[::1] counts
    cdef public unsigned char[::1] fitting

    @cython.locals(value=cython.longlong, before=cython.longlong)
    cpdef void enter(self, long long row, bint fits) noexcept
    @cython.locals(part=cython.longlong)
    cpdef long long score(self, long long row) noexcept


@cython.final
cdef class NodeScores:
    cdef public NodeAmounts amounts
    cdef public NormalizedScore preferred_affinity, prefer_no_schedule
    cdef public long long[:, ::1] binpack_terms
    cdef public long long least, most, balanced, cpu, memory, more_cpu, more_memory, gpu
    cdef public long long asks_cpu, asks_memory, asks_gpu, counts_cpu, counts_memory, pack, weight_sum

    cpdef double enter(self, long long row, double key) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cpdef void enter_rows(self, long long[::1] rows, double[::1] keys) noexcept
    cpdef double total(self, long long row, double devices) noexcept
    @cython.locals(
        score=cython.double, at=cython.Py_ssize_t, column=cython.longlong, has=cython.longlong, weight=cython.longlong,
        full=cython.longlong,
    )
    cpdef double packed(self, long long row) noexcept
    @cython.locals(
        has_cpu=cython.longlong, has_memory=cython.longlong, has_gpu=cython.longlong, used_cpu=cython.longlong,
        used_memory=cython.longlong, used_gpu=cython.longlong, cpu=cython.longlong, memory=cython.longlong,
        gpu=cython.longlong, score=cython.longlong, kinds=cython.longlong, before=cython.longlong, after=cython.longlong,
    )
    cpdef long long ordered(self, long long row) noexcept


cpdef long long free_part(long long requested, long long has) noexcept
cpdef long long full_part(long long requested, long long has) noexcept
@cython.locals(
    kinds=cython.longlong, one=cython.double, two=cython.double, three=cython.double, spread=cython.double,
    mean=cython.double,
)
cpdef long long balance(
    long long cpu, long long has_cpu, long long memory, long long has_memory, long long gpus, long long has_gpus
) noexcept
