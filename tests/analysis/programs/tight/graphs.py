"""What an autograd graph holds, no `del` of a name frees."""

import torch

BIG = 2_000_000


def graph_kept():
    weight = torch.ones(BIG, requires_grad=True)
    hidden = weight * 2
    loss = hidden.square().sum()
    other = torch.zeros(2 * BIG) + loss.item()
    return other.sum().item(), loss


def graph_in_a_local():
    weight = torch.ones(BIG, requires_grad=True)
    hidden = weight * 2
    loss = hidden.square().sum()
    other = torch.zeros(2 * BIG) + loss.item()
    return other.sum().item()


def graph_retained():
    weight = torch.ones(BIG, requires_grad=True)
    hidden = weight * 2
    loss = hidden.square().sum()
    loss.backward(retain_graph=True)
    other = torch.zeros(4 * BIG) + loss.item()
    return other.sum().item()


ALL = (graph_kept, graph_in_a_local, graph_retained)


def main(name):
    return {one.__name__: one for one in ALL}[name]()
