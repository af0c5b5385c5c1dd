"""What refers to an object, counted natively and in Python: both say the same of random heaps."""

import collections
import functools
import operator
import random
import sys

import pytest

from tenure import native, references

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

CORE = native.load("tenure_references", "references.c")
pytestmark = pytest.mark.skipif(CORE is None, reason="there is no native part to compare with")


class Named:
    def __init__(self, value):
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


Named.__module__ = "numpy.fake"  # a class written in Python, whatever its module says


def holders_of(rng, objects):
    """Random things of all kinds that refer to the objects."""
    made = []
    for _ in range(60):
        x = rng.choice(made) if made and rng.random() < 0.3 else rng.choice(objects)
        y = rng.choice(objects)
        kind = rng.randrange(12)
        made.append(
            [
                lambda: [x, y, x],
                lambda: {"a": x, 1: y},
                lambda: (x, [y]),
                lambda: collections.deque([x, y]),
                lambda: functools.partial(print, x, key=y),
                lambda: operator.itemgetter(Hashable(x)),
                lambda: Named(x),
                lambda: Slotted(y),
                lambda: lambda: (x, y),
                lambda: iter([x, y]),
                lambda: np.array([x, y, 1], dtype=object),
                lambda: np.nditer(np.array([x], dtype=object), flags=["refs_ok"]),
            ][kind]()
        )
    return made


class Hashable:
    def __init__(self, value):
        self.value = value


def in_python(monkeypatch, ask):
    with monkeypatch.context() as patch:
        patch.setattr(native, "load", lambda *_, **__: None)
        return ask()


@pytest.mark.parametrize("count", [1, 5, 12])
def test_both_count_the_same_references(monkeypatch, count):
    for seed in range(4):
        rng = random.Random(seed)
        objects = [Slotted(number) if number % 2 else [number] for number in range(count)]
        made = holders_of(rng, objects)
        natively = CORE.heap_references(objects, references.heap.objects(), references._KNOWN)
        assert natively == in_python(monkeypatch, lambda: references.from_heap(objects))  # noqa: B023
        snapshot = references.heap.objects()
        around, counts = references._around(objects, snapshot)
        theirs = in_python(monkeypatch, lambda: references._around(objects, snapshot))  # noqa: B023
        assert (list(map(id, around)), counts) == (list(map(id, theirs[0])), theirs[1])
        snapshot.clear()
        around.clear()
        theirs[0].clear()
        assert made


PROGRAM = """
one, two, three = objects
also = [one]
class Body:
    local = two
    counted = ask()
def outer(given):
    shared = three
    def inner():
        counted = ask()  # on a line of its own: only natively is what a call's frame computes with counted too
        return given, shared, counted
    again = one
    return inner()
found = [ask(), Body.counted, outer(two)[2], [ask() for one in [three]][0]]
"""


@pytest.mark.parametrize("named", [False, True])
def test_both_count_the_same_references_of_frames(monkeypatch, named):
    """A module's, a class's and a closure's variables are objects of the heap: counted once, not as a frame's too."""
    answers = []
    for count in (CORE.frame_references, lambda *asked: in_python(monkeypatch, lambda: frame_counts(*asked))):
        objects = [[], [], []]
        scope = {"objects": objects, "ask": lambda count=count, objects=objects: count(objects, named)}
        exec(PROGRAM, scope)
        answers.append(scope["found"])
    assert answers[0] == answers[1]
    assert any(map(any, answers[0]))


def frame_counts(objects, named):
    return references.from_frames(objects, named=named)


def test_classes_are_judged_by_the_same_table():
    assert references._is_opaque(np.nditer)
    for kind in (Named, operator.itemgetter, collections.deque, torch.Tensor, dict, Slotted, type(sys)):
        assert not references._is_opaque(kind)


def test_dispose_says_the_same_of_few_and_of_many():
    import tenure

    answers = []
    for count in (1, 12):
        tensors = [torch.ones(3) for _ in range(count)]
        getters = [operator.methodcaller("f", tensor) for tensor in tensors]
        remains = tenure.dispose(tensors)
        answers.append({(one.fate, one.nbytes) for one in remains.remnants})
        assert len(getters) == count
    assert answers[0] == answers[1] == {("freed", 12)}
