"""Kernels: the loops over rows (nodes) and columns (cards) that every placement runs through, compiled by Cython.

A kernel is a module of plain typed Python: loops over numpy arrays, numbers as arguments, state in the attributes of
a class. Beside it stands ``<name>.pxd`` with the C types of the same names (Cython's pure Python mode: an *augmenting*
file): ``cdef class`` and its attributes, the signatures of methods, ``@cython.locals`` for the variables of a loop.
mypy, ruff and readers see ordinary Python, and where there is no C compiler the same file runs as it is, some hundred
times slower in these loops. ``setup.py`` finds every module that has a ``.pxd``; ``make setup`` compiles them anew when
one of them changes, and pytest does not start with a kernel that is older than its source.

How to write one:

* Name every variable of a loop in the ``.pxd``: one that is not named there is a Python object, and as slow.
* An array is an attribute or an argument with a type of its own: ``long long[::1]`` for int64, ``double[::1]`` for
  float64, ``unsigned char[::1]`` for bool as uint8, ``[:, :, ::1]`` for three axes. To hand one over costs some tenths
  of a microsecond: what stays is kept in an attribute. What must be read from outside as numpy is kept there as well.
* One kernel uses another as Python does, ``from deviceshare.kernels.x import f``, and its ``.pxd`` says
  ``from deviceshare.kernels.x cimport f``: then the call is one of C.
* A method that only kernels call is ``cdef`` there, the faster call; what Python calls too, or another module imports,
  is ``cpdef``.
* A constant of another module, such as those of :mod:`.constants`, is imported as usual, and the ``.pxd`` declares it
  as a variable of the kernel's own: ``cdef long long MEMORY``.
* No bounds are checked and -1 is no index from the end, as in C. Integer division and ``%`` round as in C as well:
  only of what is not negative.
* Sums of floats are taken in the order in which they stand; the compiler may not change it (``-ffp-contract=off``), so
  that compiled and plain kernels agree to the last bit.
"""

from deviceshare.kernels.best import Best, Order
from deviceshare.kernels.card_selector import CardSelector, Floats
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import Amounts, CardCharges
from deviceshare.kernels.chips import Chips
from deviceshare.kernels.constants import (
    CORES_USED,
    CUT_BITS,
    FIELDS,
    KIND,
    MEMORY_USED,
    NEVER,
    SLOTS_USED,
    UNPARTITIONED,
)
from deviceshare.kernels.node_index import NodeIndex, weighted_score
from deviceshare.kernels.scores import NodeScores, NormalizedScore, balance, free_part, full_part
from deviceshare.kernels.shared import SharedCards

__all__ = [
    "CORES_USED",
    "CUT_BITS",
    "FIELDS",
    "KIND",
    "MEMORY_USED",
    "NEVER",
    "SLOTS_USED",
    "UNPARTITIONED",
    "Amounts",
    "Best",
    "CardCharges",
    "CardSelector",
    "Changes",
    "Chips",
    "Floats",
    "NodeIndex",
    "NodeScores",
    "NormalizedScore",
    "Order",
    "SharedCards",
    "balance",
    "free_part",
    "full_part",
    "weighted_score",
]
