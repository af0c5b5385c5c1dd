"""Objects found by their classes."""

import collections

import pytest

from tenure import heap, native, references


class Base:
    pass


class Left(Base):
    pass


class Right(Base):
    pass


class Both(Left, Right):
    pass


def test_a_family_is_all_that_inherit_each_once():
    assert sorted(kind.__name__ for kind in heap.family(Base)) == ["Base", "Both", "Left", "Right"]
    assert set(heap.family(Left, Right)) == {Left, Right, Both}
    assert set(heap.family(Base, without=[Left, Both])) == {Base, Right}


def test_instances_are_of_just_these_classes():
    made = [Base(), Left(), Both()]
    assert sorted(map(id, heap.instances({Base, Both}))) == sorted([id(made[0]), id(made[2])])


def test_both_ways_find_the_same_instances():
    kinds = [type("Made", (Base,), {}) for _ in range(200)]
    made = [kind() for kind in kinds for _ in range(3)]
    asked = [*kinds[::2], dict, Both]
    found = list(heap.instances(asked))
    counts = collections.Counter(map(type, found))
    assert {counts[kind] for kind in kinds[::2]} == {3}
    assert {counts[kind] for kind in kinds[1::2]} == {0}
    known = {id(thing) for thing in found}
    assert [id(thing) in known for thing in made] == [id(thing) in {*map(id, heap._by_class(asked))} for thing in made]


def test_a_class_without_a_hash_is_passed_over():
    class Meta(type):
        def __eq__(cls, other):
            raise AssertionError("no code of its own runs")

        __hash__ = None

    class Odd(metaclass=Meta):
        pass

    made = [Odd(), Base()]
    assert list(heap.instances({Base})) == [made[1]]
    assert list(heap.instances(heap.family(Odd))) == [made[0]]


def test_who_asks_is_no_referrer():
    one, other = Base(), Left()
    holder = [one]
    assert heap.referrers((one, other)) == [holder]
    assert references.from_heap([one, other]) == [1, 0]


@pytest.mark.skipif(native.load("tenure_references", "references.c") is None, reason="only the native part can tell")
def test_a_tuple_that_is_still_being_filled_is_not_listed():
    """Whoever fills it fails if somebody else has it by then; another thread may be the one."""
    kept = []

    def fill():
        first = Base()
        yield first
        kept.append(heap.objects())
        kept.append(heap.referrers((first,)))
        yield Base()

    assert [type(thing) for thing in tuple(fill())] == [Base, Base]
    assert len(kept) == 2
