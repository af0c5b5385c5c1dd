"""A torch tensor's name is deleted, and then used.

Claim: the tensor object ceases to exist and its memory is reclaimed.

What happens: NameError (UnboundLocalError in a function): the name is gone. The tensor is freed only if no other name, list or
graph references it. `del` does not show that; tenure.dispose() does.
"""

import torch

import tenure

TENURE = None


def asked():
    batch = torch.tensor([[5, 6], [7, 8]])
    del batch
    return batch  # noqa: F821 - the question is what happens here


def repaired():
    batch = torch.tensor([[5, 6], [7, 8]])
    other = batch.view(-1)
    remains = tenure.dispose(batch)
    held = remains.held_bytes  # `other` retains it, which `del batch` would not have shown
    return held, other.tolist()


if __name__ == "__main__":
    repaired()
    asked()
