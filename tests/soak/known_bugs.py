"""Product bugs that random programs run into at once: while a switch is True, programs go around that bug.

Set one to False (or TENURE_SOAK_BUGS=1: all) when it is fixed. Each has a smallest script in the report of the soak tests.
"""

import os

_AROUND = os.environ.get("TENURE_SOAK_BUGS") != "1"

# 09: jnp functions refuse an owning handle of a JAX array.
OWNED_JAX_ARRAYS_DO_NOT_WORK_IN_JNP = _AROUND
# 12: remains(x) foretells other bytes than dispose(x) frees: a storage object, a DLPack alias, x with its Owned, ...
REMAINS_IS_NOT_EXACT = _AROUND
# 13: a handle and its Owned end together: the handle is then reported as "cannot".
HANDLE_AND_ITS_OWNED_IN_ONE_SCOPE = _AROUND
# 14: holders(x) of an ended owning handle raises.
HOLDERS_OF_AN_ENDED_OWNED_RAISES = _AROUND
# 15: a walk over the heap (frameworks/host.py, arrays) leaves a cycle, which keeps every array alive until a collection.
HEAP_WALKS_LEAVE_A_CYCLE = _AROUND
# 17: the address of a 0-d TensorFlow tensor is that of a temporary: "held" by whoever has that one now.
TF_SCALARS_HAVE_NO_ADDRESS = _AROUND
