"""Reports name what holds bytes where the collector shows no holder: arrays, capsules, gradient tapes, cycles."""

import gc

import pytest

import tenure
from tenure.analysis.holders import find  # noqa: F401 - so that its imports are done before a test counts


def held(remains):
    return [f"{holder.kind} {holder.name}" for holder in remains.holders]


class Node:
    pass


def test_what_was_exported_from_torch_inside_a_scope(torch):
    numpy = pytest.importorskip("numpy")
    with tenure.scope() as s:
        x = torch.ones(3)
        exported = x.numpy()
    assert held(s.remains) == ["array exported"]
    with tenure.scope() as s:
        x = torch.ones(3)
        nested = [{"part": numpy.asarray(x)[1:]}]
    assert held(s.remains) == ["array nested[0]['part']"]
    with tenure.scope() as s:
        x = torch.ones(3)
        memory = memoryview(x.numpy())
    assert held(s.remains) == ["memoryview memory"]
    with tenure.scope() as s:
        x = torch.ones(3)
        capsule = torch.utils.dlpack.to_dlpack(x)
    assert held(s.remains) == ["capsule capsule"]
    assert exported.sum() == 3 and nested[0]["part"].sum() == 2 and len(memory) == 3
    assert torch.from_dlpack(capsule).tolist() == [1] * 3


def test_what_was_exported_from_jax_inside_a_scope(jax):
    numpy = pytest.importorskip("numpy")
    with tenure.scope() as s:
        x = jax.numpy.ones(3)
        array = numpy.from_dlpack(x)
    assert held(s.remains) == ["array array"]
    with tenure.scope() as s:
        x = jax.numpy.ones(3)
        capsule = x.__dlpack__()
    assert held(s.remains) == ["capsule capsule"]
    assert s.remains.freed_bytes == 0
    assert array.sum() == 3 and capsule is not None


def test_an_unreachable_cycle_is_called_one(torch):
    gc.disable()
    try:
        x = torch.ones(3)
        node, other, items = Node(), Node(), []
        node.me, node.view = node, x[1:]
        other.me, other.array = other, x.numpy()
        items += [items, x[2:]]
        del node, other, items
        remains = tenure.dispose(x)
        texts = sorted(map(str, remains.holders))
        start = "an unreachable reference cycle, freed at the next garbage collection (gc.collect()): "
        assert texts == [f"{start}{rest}" for rest in ("array Node.me → Node.array", "view Node.me → Node.view", "view list[0] → list[1]")]  # fmt: skip
        assert remains.held_bytes == 12
    finally:
        gc.enable()


def test_a_cycle_that_the_collector_does_not_see(torch):
    gc.disable()
    try:
        x = torch.ones(3)
        weight = torch.ones(3, requires_grad=True)
        weight.grad = torch.ones(3)
        weight.grad.weight, weight.grad.x = weight, x
        del weight
        (found,) = [holder for holder in tenure.holders(x) if holder.kind == "cycle"]
        assert str(found).startswith(
            "an unreachable reference cycle through native code, which gc.collect() may not free"
        )
    finally:
        gc.enable()


def test_a_tape_is_named(tf):
    weight = tf.Variable(2.0)

    def paths(x):
        return sorted(f"{holder.kind} {holder.name}" for holder in tenure.holders(x) if holder.name not in ("x", "y"))

    saved = ("GradientTape → saved input", "GradientTape → saved output")
    with tf.GradientTape(persistent=True) as tape:
        y = tf.exp(tf.ones(3) * weight)
        z = y * y
        assert paths(y) == [f"local tape → open persistent {part}" for part in saved]
    assert paths(y) == [f"local tape → persistent {part}" for part in saved]
    assert held(tenure.remains(y))[1:] == held(tenure.dispose(y))[1:] != []
    assert tape.gradient(z, weight) is not None
    del tape
    assert paths(y) == []
    with tf.GradientTape() as other:
        y = tf.exp(tf.ones(3) * weight)
        z = y * y
    kept = [other]
    del other
    assert paths(y) == [f"local kept[0] → {part}" for part in saved]
    assert kept.pop().gradient(z, weight) is not None
    assert paths(y) == []
