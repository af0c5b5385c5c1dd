"""What both of torch's recorders leave out."""

from __future__ import annotations

# Operations that read no data: they make views or empty memory, pass their input on, or only call others that are told
# themselves. Told or not, they are no use of a buffer; not to be told of them saves half of what recording costs.
PLUMBING = frozenset(
    f"aten::{name}"
    for name in """
    alias as_strided chunk detach detach_ diagonal empty_like empty_strided expand expand_as lift_fresh movedim narrow
    permute resize_ resolve_conj resolve_neg select slice split split_with_sizes squeeze swapaxes t to transpose unbind
    unsqueeze view view_as _local_scalar_dense _reshape_alias _unsafe_view

    _batch_norm_impl_index batch_norm contiguous conv1d conv2d conv3d cross_entropy_loss dropout flatten group_norm layer_norm
    linear log_softmax matmul nll_loss nll_loss_nd reshape scaled_dot_product_attention softmax unflatten
    """.split()  # noqa: SIM905 - sixty lines say no more
)
