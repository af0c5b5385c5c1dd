"""Product bugs that random programs run into at once: while a switch is True, programs go around that bug.

Set one to False (or TENURE_SOAK_BUGS=1: all) when it is fixed. Each has a smallest script in the report of the soak tests.
"""

import os

_AROUND = os.environ.get("TENURE_SOAK_BUGS") != "1"

# 01: `a.numpy()` inside a scope: its exit frees the bytes under the NumPy array (use after free).
NUMPY_EXPORT_IN_SCOPE_IS_FREED = _AROUND
# 02: torch.from_numpy, torch.from_dlpack, jax.dlpack.from_dlpack: "freed", though the other side has the bytes.
FOREIGN_MEMORY_IS_SAID_TO_BE_FREED = _AROUND
# 03: adopt() of parameters and buffers of a module: the scope's exit spares them.
ADOPTED_PARAMETERS_ARE_SPARED = _AROUND
# 04: v._base, x.grad, ctx.saved_tensors, hooks give an unregistered EndedTensor after the first handle was ended.
OLD_IMPL_GETS_AN_ENDED_WRAPPER = _AROUND
# 05: a birth refused by a cap raises torch.OutOfMemoryError instead of CapExceeded.
CAP_ERROR_IS_REPLACED = _AROUND
# 06: remains([base, view]) says "held", dispose([base, view]) frees.
REMAINS_DOES_NOT_COUNT_BASES = _AROUND
# 07: a handle that could only be sealed (native weak references, as after retain_grad) still lets torch.tensor(x) read.
SEALED_ONLY_HANDLES_LET_TORCH_TENSOR_READ = _AROUND
# 08: an owning handle has no __setitem__.
OWNED_HAS_NO_SETITEM = _AROUND
# 09: jnp functions refuse an owning handle of a JAX array.
OWNED_JAX_ARRAYS_DO_NOT_WORK_IN_JNP = _AROUND
# 10: np.from_dlpack(x) of a JAX array inside a scope aborts the process when the scope is left.
JAX_DLPACK_IN_SCOPE_ABORTS = _AROUND
# 11: a walk over the heap leaves a cycle through its own frames, which keeps all that it saw alive until a collection.
HEAP_WALKS_LEAVE_A_CYCLE = _AROUND
