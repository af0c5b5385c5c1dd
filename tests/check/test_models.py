"""What the models say about the installed torch is true: each listed operation is run, and its graph is read."""

import warnings

import pytest
import torch

from tenure.check.library_calls import _saving, saves

F = torch.nn.functional
# Arguments after the input, for operations that need some; the input is 4 by 4, positive, and requires a gradient.
ARGUMENTS = {
    "addcdiv": lambda x: (torch.rand(4, 4), torch.rand(4, 4) + 0.1), "clamp": lambda x: (0.2, 0.8), "clip": lambda x: (0.2, 0.8),
    "clamp_max": lambda x: (0.5,), "clamp_min": lambda x: (0.5,), "pow": lambda x: (3,), "bmm": lambda x: (x.detach().expand(1, 4, 4),),
    "topk": lambda x: (2,), "kthvalue": lambda x: (2,), "masked_fill": lambda x: (x > 0.5, 0.0), "masked_select": lambda x: (x > 0.5,),
    "index_select": lambda x: (0, torch.tensor([0, 1])), "gather": lambda x: (0, torch.zeros(4, 4, dtype=torch.long)),
    "scatter": lambda x: (0, torch.zeros(4, 4, dtype=torch.long), torch.rand(4, 4)), "take": lambda x: (torch.tensor([0]),),
    "pad": lambda x: ((1, 1),),
    "cross_entropy": lambda x: (torch.zeros(4, dtype=torch.long),), "nll_loss": lambda x: (torch.zeros(4, dtype=torch.long),),
    "prelu": lambda x: (torch.rand(1),), "layer_norm": lambda x: ((4,),), "group_norm": lambda x: (2,),
    "linear": lambda x: (torch.rand(2, 4, requires_grad=True),), "binary_cross_entropy": lambda x: (torch.rand(4, 4),),
    "repeat": lambda x: (2, 1), "tile": lambda x: (2,), "expand": lambda x: (2, 4, 4), "view": lambda x: (2, 8),
    "reshape": lambda x: (2, 8), "narrow": lambda x: (0, 0, 1), "select": lambda x: (0, 0), "unfold": lambda x: (0, 2, 1),
    "permute": lambda x: (1, 0), "to": lambda x: (torch.float64,), "flip": lambda x: (0,), "roll": lambda x: (1,),
}  # fmt: skip
GUESSES = ((), (torch.rand(4, 4) + 0.1,), (0,), (0, 1), (2,))


def made(name):
    """An input, and what the operation makes of it; None if it cannot be called with so simple arguments."""
    for function in (getattr(torch.Tensor, name, None), getattr(torch, name, None), getattr(F, name, None)):
        for guess in [None] if name in ARGUMENTS else GUESSES:
            x = (torch.rand(4, 4) * 0.8 + 0.1).requires_grad_()
            given = x.unsqueeze(0) if name == "bmm" else x[:, 0] if name in ("dot", "outer") else x
            try:
                result = function(given, *(ARGUMENTS[name](x) if guess is None else guess))
            except (TypeError, RuntimeError, ValueError, IndexError, AttributeError):
                continue
            result = result[0] if isinstance(result, (tuple, list)) else result
            if isinstance(result, torch.Tensor) and result.grad_fn is not None:
                return x, result
    return None


def saved(tensor):
    """All tensors that the graph of a tensor keeps."""
    found, waiting = [], [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            found += [
                one for one in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(one, torch.Tensor)
            ]
        waiting += [parent for parent, _ in node.next_functions if parent is not None]
    return found


@pytest.mark.parametrize("name", sorted(_saving().keys() - {"cuda"}))
def test_an_operation_keeps_what_the_model_says(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = made(name)
    if both is None:
        pytest.skip("needs other arguments")
    x, result = both
    kept = saved(result)
    of_input = any(one.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for one in kept)
    of_result = any(one.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() for one in kept)
    how = saves(name)
    assert (how == "nothing") == (not kept)
    if how == "output":
        assert of_result and not of_input
    if how == "some":
        assert kept


def test_most_operations_can_be_run():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        able = [name for name in _saving().keys() - {"cuda"} if made(name) is not None]
    assert len(able) > 0.8 * len(_saving())


def test_an_operation_that_is_not_listed_is_unknown():
    assert saves("no_such_operation") == "unknown"
