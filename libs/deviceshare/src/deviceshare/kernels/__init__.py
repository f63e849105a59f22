"""Kernels: the loops over rows (nodes) and columns (cards) that every placement runs through, compiled by Cython.

Reading order: :mod:`.node_index` (feasibility and score of every node), :mod:`.card_selector` and its subclasses
:mod:`.shared`, :mod:`.chips`, :mod:`.instances` and :mod:`.unregistered` (picking cards), :mod:`.card_order`,
:mod:`.best`, :mod:`.changes`, :mod:`.scores`, :mod:`.topology_index` with :mod:`.topology_term`, and :mod:`.row_scan`
(what depends on other pods), :mod:`.free_cards`, :mod:`.node_fragmentation` and :mod:`.typical` (the policy
``fragmentation``).
:mod:`.arrivals` is no kernel: it counts the pods for :mod:`.typical`.

A kernel is a module of plain typed Python: loops over numpy arrays, numbers as arguments, state in the attributes of
a class. ``<name>.pxd`` beside it declares the C types of the same names (Cython's pure Python mode: an *augmenting*
file): ``cdef class`` and its attributes, the signatures of methods, ``@cython.locals`` for the variables of a loop.
mypy, ruff and readers see ordinary Python. Without a C compiler the same file runs uncompiled, with loops that are some
hundred times slower. ``setup.py`` finds every module that has a ``.pxd``; ``make setup`` compiles modules that changed,
and pytest does not start with a kernel that is older than its source.

How to write a kernel:

* Declare every variable of a loop in the ``.pxd``: an undeclared variable is a Python object, and as slow.
* An array is an attribute or an argument with a type of its own: ``long long[::1]`` for int64, ``double[::1]`` for
  float64, ``unsigned char[::1]`` for bool as uint8, ``[:, :, ::1]`` for three axes. Passing an array costs some tenths
  of a microsecond: keep arrays that stay in attributes. An array that Python code reads as numpy needs a second
  reference there.
* A kernel uses another one as in Python, ``from deviceshare.kernels.x import f``, and its ``.pxd`` says
  ``from deviceshare.kernels.x cimport f``, which makes the call a C call.
* A method that only kernels of the same module call is ``cdef``, the faster call. A method that Python calls too, or
  that another module imports, is ``cpdef``.
* A constant of another module, such as those of :mod:`.constants`, is imported as usual, and the ``.pxd`` declares it
  as a variable of the kernel's own: ``cdef long long MEMORY``.
* Bounds are not checked, and -1 is no index from the end, as in C. Integer division and ``%`` round as in C as well:
  use them for non-negative numbers only.
* Sums of floats are taken in the order of the source. The compiler may not change the order (``-ffp-contract=off``),
  so that compiled and uncompiled kernels agree to the last bit.
"""

from deviceshare.kernels.arrays import Floats as Floats, Mask as Mask
from deviceshare.kernels.arrivals import MAX_EXPECTED as MAX_EXPECTED, Arrivals as Arrivals
from deviceshare.kernels.best import Best as Best, TieOrder as TieOrder
from deviceshare.kernels.card_order import CardOrder as CardOrder
from deviceshare.kernels.card_selector import CardSelector as CardSelector
from deviceshare.kernels.changes import Changes as Changes
from deviceshare.kernels.charges import CardCharges as CardCharges, NodeAmounts as NodeAmounts
from deviceshare.kernels.chips import ChipSelector as ChipSelector
from deviceshare.kernels.constants import (
    CORES_USED as CORES_USED,
    CUT_BITS as CUT_BITS,
    FIELDS as FIELDS,
    KIND as KIND,
    MEMORY_USED as MEMORY_USED,
    NEVER as NEVER,
    SLOTS_USED as SLOTS_USED,
    UNPARTITIONED as UNPARTITIONED,
)
from deviceshare.kernels.node_fragmentation import CardParts as CardParts, NodeFragmentation as NodeFragmentation
from deviceshare.kernels.node_index import NodeIndex as NodeIndex, weighted_score as weighted_score
from deviceshare.kernels.row_scan import RowScan as RowScan
from deviceshare.kernels.scores import (
    NodeScores as NodeScores,
    NormalizedScore as NormalizedScore,
    balance as balance,
    free_part as free_part,
    full_part as full_part,
)
from deviceshare.kernels.shared import SharedCardSelector as SharedCardSelector
from deviceshare.kernels.topology_index import MAX_LEVELS as MAX_LEVELS, TopologyIndex as TopologyIndex
from deviceshare.kernels.topology_term import TopologyTerm as TopologyTerm
from deviceshare.kernels.typical import (
    CARD as CARD,
    Typical as Typical,
    TypicalPod as TypicalPod,
    expected_weight as expected_weight,
)
from deviceshare.kernels.unregistered import UnregisteredSelector as UnregisteredSelector
