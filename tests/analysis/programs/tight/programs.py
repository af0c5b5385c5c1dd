"""Programs that hold no more than they need, or where a `del` would break them, or would free nothing."""

import torch

KEPT = []
BIG = 2_000_000


def deleted():
    big = torch.ones(BIG)
    total = big.sum()
    del big
    return (torch.zeros(BIG) + total).sum().item()


def read_again():
    big = torch.ones(BIG)
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    return (other.sum() + big.shape[0]).item()


def in_a_closure():
    big = torch.ones(BIG)

    def mean():
        return big.mean()

    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    return other.sum().item(), mean


def kept():
    big = torch.ones(BIG)
    KEPT.append(big)
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    KEPT.clear()
    return other.sum().item()


def carried():
    state = torch.ones(BIG)
    for _ in range(3):
        state = state * 0.5
        other = torch.zeros(2 * BIG) + state.sum()
    return other.sum().item()


def argument(big):
    total = big.sum()
    return (torch.zeros(2 * BIG) + total).sum().item()


def in_a_list():
    big = torch.ones(BIG)
    both = [big, big]
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    return other.sum().item() + len(both)


def returned():
    big = torch.ones(BIG)
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    other.sum()
    return big


def seen_by_name():
    big = torch.ones(BIG)
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    return other.sum().item(), sorted(locals())


def iterated():
    big = torch.ones(4, BIG)
    total = torch.zeros(())
    for row in big:
        total += row.sum()
    other = torch.zeros(8 * BIG) + total
    return other.sum().item()


class Box:
    pass


def an_attribute():
    box = Box()
    big = torch.ones(BIG)
    box.content = big
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    return other.sum().item()


def a_view_of_it():
    big = torch.ones(BIG)
    row = big[:10]
    total = big.sum()
    other = torch.zeros(2 * BIG) + total
    return other.sum().item(), row


def noted(value, seen):
    seen.append(value[:1])
    return value


def layer(seen):
    return noted(torch.ones(BIG), seen)[:10] * 0.5


def steps():
    seen = []
    for _ in range(6):
        out = layer(seen)
        total = out.sum() + seen[-1].sum()
        few = torch.zeros(10) + total
    return few.sum().item()


def seen_by_a_recorder():
    total = steps()
    return (torch.zeros(10) + total).sum().item()


ALL = (
    deleted,
    read_again,
    in_a_closure,
    kept,
    carried,
    in_a_list,
    returned,
    seen_by_name,
    a_view_of_it,
    iterated,
    an_attribute,
    seen_by_a_recorder,
)


def main(name):
    found = {one.__name__: one for one in ALL}
    if name == "argument":
        return argument(torch.ones(BIG))
    return found[name]()
