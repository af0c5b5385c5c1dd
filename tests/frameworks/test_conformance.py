"""One body for each behaviour, run for every framework: what the library promises, it promises for all."""

import collections
import dataclasses
import gc
import inspect
import math
import os
import weakref

import pytest

import tenure
from tenure import frameworks, native
from tenure.frameworks.base import Framework


class Torch:
    """What a test may ask of torch."""

    ends = True  # a handle can be ended under its user
    sees = True  # tenure.memory() can count its tensors

    def make(self, *shape):
        import torch

        return torch.arange(float(math.prod(shape))).reshape(shape).clone()

    def values(self, tensor):
        return tensor.tolist()

    def view(self, tensor):
        return tensor[1:]

    def numpy(self, tensor):
        return tensor.numpy()

    def add(self, tensor):
        return tensor + 1

    def touch(self, tensor):
        return tensor.sum()

    def variable(self, *shape):
        import torch

        return torch.nn.Parameter(torch.ones(shape))


class Jax:
    ends = True
    sees = True
    view = None  # slices are copies

    def make(self, *shape):
        import jax.numpy as jnp

        return jnp.arange(float(math.prod(shape))).reshape(shape) + 0

    def values(self, tensor):
        return tensor.tolist()

    def numpy(self, tensor):
        import numpy

        return numpy.asarray(tensor)

    def add(self, tensor):
        return tensor + 1

    def touch(self, tensor):
        return tensor.sum()

    variable = None


class Tensorflow:
    ends = False
    sees = True
    view = None  # slices are copies

    def make(self, *shape):
        import tensorflow as tf

        return tf.reshape(tf.range(float(math.prod(shape))), shape) + 0

    def values(self, tensor):
        return tensor.numpy().tolist()

    def numpy(self, tensor):
        import numpy

        return numpy.asarray(memoryview(tensor))

    def add(self, tensor):
        return tensor + 1

    def touch(self, tensor):
        import tensorflow as tf

        return tf.reduce_sum(tensor)

    def variable(self, *shape):
        import tensorflow as tf

        return tf.Variable(tf.ones(shape))


class Numpy:
    ends = False
    sees = False

    def make(self, *shape):
        import numpy

        return numpy.arange(float(math.prod(shape)), dtype="float32").reshape(shape).copy()

    def values(self, tensor):
        return tensor.tolist()

    def view(self, tensor):
        return tensor[1:]

    def numpy(self, tensor):
        return tensor.view()

    def add(self, tensor):
        return tensor + 1

    def touch(self, tensor):
        return tensor.sum()

    variable = None


KITS = {"torch": Torch(), "jax": Jax(), "tensorflow": Tensorflow(), "numpy": Numpy()}


@pytest.fixture
def kit(framework):
    pytest.importorskip(framework)
    return KITS[framework]


def ending(kit):
    if not kit.ends:
        pytest.skip("its handles cannot be ended")


# ------------------------------------------------------------------------------------------------ the adapters


def test_the_adapter_has_every_member_of_the_protocol(framework, kit):
    (adapter,) = [found for found in frameworks.awake() if found.name == framework]
    wanted = set(Framework.__annotations__) | {name for name, _ in inspect.getmembers(Framework, inspect.isfunction)}
    missing = {name for name in wanted if not name.startswith("_") and not hasattr(adapter, name)}
    assert missing == set()
    for name, function in inspect.getmembers(Framework, inspect.isfunction):
        if not name.startswith("_"):
            assert (
                list(inspect.signature(getattr(adapter, name)).parameters)
                == list(inspect.signature(function).parameters)[1:]
            )


def test_the_adapter_owns_its_tensors_and_nobody_elses(framework, kit):
    owner = frameworks.owner(kit.make(2))
    assert owner is not None
    assert owner.name == framework
    for stranger in (1, "x", [kit.make(2)], object(), type, kit.make):
        assert frameworks.owner(stranger) is None


def test_the_native_parts_are_in_use_unless_switched_off(framework, kit):
    with tenure.scope():
        tenure.remains(kit.make(2))
    tenure.dispose(kit.make(2))
    if os.environ.get("TENURE_NATIVE") == "0":
        assert native._loaded == {}
    else:
        assert {name: native.reason(name) for name, found in native._loaded.items() if found is None} == {}


# ------------------------------------------------------------------------------------------------ info


def test_info_of_a_live_tensor(framework, kit):
    found = tenure.info(kit.make(2, 3))
    assert (found.framework, found.shape, found.dtype, found.nbytes) == (framework, (2, 3), "float32", 24)
    assert found.state == "live"
    assert found.device.lower().removeprefix("tfrt_").startswith("cpu")
    assert (found.ended, found.cause, found.scope) == (None, "", None)


def test_info_inside_a_scope_names_it_and_the_birth_line(kit):
    with tenure.scope("here") as s:
        tensor = kit.make(2)
        found = tenure.info(tensor)
        claimed = bool(s.tensors())
    if claimed:
        assert found.scope == "here"
        assert found.born.file == __file__
    else:  # NumPy arrays are never claimed
        assert found.scope is None


def test_info_changes_nothing(kit):
    tensor = kit.make(2, 2)
    assert tenure.info(tensor) == tenure.info(tensor)
    assert kit.values(tensor) == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 0, 2)])
def test_info_of_odd_shapes(kit, shape):
    found = tenure.info(kit.make(*shape))
    assert found.shape == shape
    assert found.nbytes == (4 if shape in [(), (1,)] else 0)


# ------------------------------------------------------------------------------------------------ dispose


def test_dispose_frees_what_nobody_else_needs(kit):
    ending(kit)
    tensor = kit.make(100)
    told = tenure.dispose(tensor)
    assert [remnant.fate for remnant in told] == ["freed"]
    assert (told.freed_bytes, told.held_bytes, told.done) == (400, 0, True)
    assert told.freed[0].tensors[0].shape == (100,)
    assert str(told).startswith("400 bytes freed, 0 bytes retained\n")


def test_dispose_says_why_it_cannot(kit):
    if kit.ends:
        pytest.skip("its handles can be ended")
    tensor = kit.make(100)
    told = tenure.dispose(tensor)
    assert [remnant.fate for remnant in told] == ["cannot"]
    assert (told.freed_bytes, told.held_bytes) == (0, 400)
    assert "tenure.own(x)" in told.cannot[0].reason
    assert tenure.info(tensor).state == "live"
    assert kit.values(tensor)[:2] == [0.0, 1.0]


def test_dispose_twice_is_a_no_op(kit):
    ending(kit)
    tensor = kit.make(3)
    tenure.dispose(tensor)
    before = tenure.info(tensor)
    again = tenure.dispose(tensor)
    assert [remnant.fate for remnant in again] == ["already"]
    assert again.freed_bytes == again.held_bytes == 0
    assert tenure.info(tensor) == before


def test_dispose_of_one_tensor_named_twice_counts_once(kit):
    ending(kit)
    tensor = kit.make(3)
    assert len(tenure.dispose([tensor, tensor, {"again": tensor}])) == 1


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,)])
def test_dispose_of_odd_shapes(kit, shape):
    ending(kit)
    tensor = kit.make(*shape)
    told = tenure.dispose(tensor)
    assert len(told) == 1
    assert told.held_bytes == 0
    assert tuple(tensor.shape) == shape
    with pytest.raises(tenure.TensorReleased):
        kit.add(tensor)


def test_an_ended_handle_keeps_its_metadata(framework, kit):
    ending(kit)
    tensor = kit.make(2, 3)
    dtype, shape = tensor.dtype, tensor.shape
    tenure.dispose(tensor)
    assert (tensor.dtype, tensor.shape, tensor.ndim) == (dtype, shape, 2)
    found = tenure.info(tensor)
    assert (found.framework, found.shape, found.dtype, found.nbytes) == (framework, (2, 3), "float32", 24)
    assert (found.state, found.cause) == ("disposed", "dispose")
    assert found.ended.file == __file__


def test_every_use_of_an_ended_handle_raises(kit):
    ending(kit)
    tensor = kit.make(2, 3)
    tenure.dispose(tensor)
    for use in (kit.add, kit.touch, kit.values, kit.numpy, lambda t: t[0], lambda t: list(t), lambda t: t * t):
        with pytest.raises(tenure.TensorReleased) as caught:
            use(tensor)
        text = str(caught.value)
        for part in ("float32[2, 3]", "created:", "released: by dispose at", "used:", "fix:", "test_conformance.py"):
            assert part in text
        assert caught.value.tensor.shape == (2, 3)
        assert isinstance(caught.value, RuntimeError)


def test_repr_of_an_ended_handle_says_where_and_why(framework, kit):
    ending(kit)
    tensor = kit.make(2)
    tenure.dispose(tensor)
    for text in (repr(tensor), str(tensor), f"{tensor}"):
        assert text.startswith(f"<released {framework}")
        assert "by dispose at test_conformance.py:" in text


def test_a_view_stays_right_and_holds_the_bytes(kit):
    ending(kit)
    if kit.view is None:
        pytest.skip("it has no views")
    tensor = kit.make(4)
    view = kit.view(tensor)
    told = tenure.dispose(tensor)
    assert [remnant.fate for remnant in told] == ["held"]
    assert told.held_bytes == 16
    assert kit.values(view) == [1.0, 2.0, 3.0]
    after = tenure.dispose(view)
    assert after.freed_bytes == 16


def test_a_numpy_export_stays_right_and_holds_the_bytes(kit):
    ending(kit)
    tensor = kit.make(4)
    array = kit.numpy(tensor)
    told = tenure.dispose(tensor)
    assert [remnant.fate for remnant in told] == ["held"]
    junk = [kit.make(4) for _ in range(50)]
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0]
    del junk


def test_dispose_walks_containers(kit):
    ending(kit)
    Pair = collections.namedtuple("Pair", "left right")

    @dataclasses.dataclass
    class Batch:
        x: object
        extra: dict

    class Plain:
        __slots__ = ("slot",)

    made = [kit.make(2) for _ in range(7)]
    plain = Plain()
    plain.slot = made[5]
    cycle = [made[6]]
    cycle.append(cycle)
    value = {"pair": Pair(made[0], (made[1],)), "batch": Batch(made[2], {"deep": [[{"er": made[3]}]]}), 3: "text"}
    value["deque"] = collections.deque([made[4], plain, cycle])
    told = tenure.dispose(value)
    assert len(told) == 7
    assert [tenure.info(tensor).state for tensor in made] == ["disposed"] * 7


@pytest.mark.parametrize("empty", [[], {}, (), set(), object(), [1, "two", None]])
def test_dispose_of_what_holds_no_tensors_says_so(kit, empty):
    told = tenure.dispose(empty)
    assert len(told) == 0
    assert str(told) == "nothing to release: no tensors"


# ------------------------------------------------------------------------------------------------ remains


def test_remains_ends_nothing(kit):
    tensor = kit.make(100)
    told = tenure.remains(tensor)
    assert told.done is False
    assert len(told) == 1
    assert tenure.info(tensor).state == "live"
    assert kit.values(tensor)[1] == 1.0


def test_remains_foretells_dispose(kit):
    ending(kit)
    for make in (kit.make, lambda *shape: kit.add(kit.make(*shape))):
        tensor = make(100)
        foretold = [(remnant.fate, remnant.nbytes) for remnant in tenure.remains(tensor)]
        assert foretold == [(remnant.fate, remnant.nbytes) for remnant in tenure.dispose(tensor)] == [("freed", 400)]


def test_remains_foretells_what_an_export_holds(kit):
    ending(kit)
    tensor = kit.make(100)
    array = kit.numpy(tensor)
    assert [remnant.fate for remnant in tenure.remains(tensor)] == ["held"]
    assert [remnant.fate for remnant in tenure.dispose(tensor)] == ["held"]
    assert array[2] == 2.0


def test_remains_of_an_ended_tensor_is_already(kit):
    ending(kit)
    tensor = kit.make(3)
    tenure.dispose(tensor)
    assert [remnant.fate for remnant in tenure.remains(tensor)] == ["already"]


def test_that_an_export_holds_the_bytes_is_said(kit):
    ending(kit)
    tensor = kit.make(4)
    kept_here = [kit.numpy(tensor)]
    told = tenure.dispose(tensor)
    # Which name leads to the array is the business of tests/analysis.
    assert [holder.kind for holder in told.holders] == ["array"], [str(holder) for holder in told.holders]
    assert kept_here[0][3] == 3.0


# ------------------------------------------------------------------------------------------------ memory


def test_memory_counts_a_new_tensor_and_forgets_a_dropped_one(framework, kit):
    if not kit.sees:
        assert any("NumPy" in note for note in tenure.memory().notes)
        return
    gc.collect()
    before = tenure.memory().framework(framework)
    tensor = kit.make(1000)
    during = tenure.memory().framework(framework)
    del tensor
    after = tenure.memory().framework(framework)
    assert (during.tensors - before.tensors, during.buffers - before.buffers) == (1, 1)
    assert during.nbytes - before.nbytes == 4000
    assert after == before


def test_memory_counts_shared_bytes_once(framework, kit):
    if framework == "numpy" or kit.view is None:
        pytest.skip("it has no views that are counted")
    before = tenure.memory().framework(framework)
    tensor = kit.make(1000)
    view = kit.view(tensor)
    during = tenure.memory().framework(framework)
    assert (during.tensors - before.tensors, during.buffers - before.buffers) == (2, 1)
    assert during.nbytes - before.nbytes == 4000
    del view


def test_memory_does_not_count_the_ended(framework, kit):
    ending(kit)
    before = tenure.memory().framework(framework)
    tensor = kit.make(1000)
    tenure.dispose(tensor)
    assert tenure.memory().framework(framework) == before


# ------------------------------------------------------------------------------------------------ own


def test_own_stands_for_the_tensor(kit):
    owned = tenure.own(kit.make(2, 3))
    assert tuple(owned.shape) == (2, 3)
    assert kit.values(owned + 1) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert kit.values(1 + owned) == kit.values(owned + 1)
    assert kit.values(owned[1]) == [3.0, 4.0, 5.0]
    assert len(owned) == 2
    assert kit.values(kit.touch(owned)) == 15.0
    assert tenure.info(owned).state == "live"


def test_own_really_lets_go(kit):
    owned = tenure.own(kit.make(100))
    told = tenure.dispose(owned)
    assert [remnant.fate for remnant in told] == ["freed"]
    assert told.freed_bytes == 400
    assert tenure.info(owned).state == "disposed"
    assert tenure.info(owned).shape == (100,)
    assert repr(owned).startswith("<released ")
    assert tuple(owned.shape) == (100,)


def test_an_ended_owned_raises_whatever_is_asked(kit):
    owned = tenure.own(kit.make(2))
    tenure.dispose(owned)
    uses = [
        lambda o: o + 1,
        lambda o: 1 + o,
        lambda o: o[0],
        len,
        list,
        bool,
        float,
        lambda o: o == o,
        lambda o: o.value,
        kit.touch,
    ]
    for use in uses:
        with pytest.raises(tenure.TensorReleased):
            use(owned)
    assert [remnant.fate for remnant in tenure.dispose(owned)] == ["already"]


def test_own_of_an_owned_is_itself(kit):
    owned = tenure.own(kit.make(2))
    assert tenure.own(owned) is owned


def test_own_reports_who_else_holds_it(kit):
    tensor = kit.make(100)
    owned = tenure.own(tensor)
    told = tenure.dispose(owned)
    if kit.ends:
        assert told.freed_bytes == 400
    else:
        assert told.held_bytes == 400
        assert kit.values(tensor)[3] == 3.0


def test_a_scope_ends_an_owned_one(kit):
    with tenure.scope("s") as s:
        owned = tenure.own(kit.make(100))
    assert s.remains.freed_bytes == 400
    with pytest.raises(tenure.TensorReleased):
        kit.touch(owned)


# ------------------------------------------------------------------------------------------------ scope


def test_a_scope_ends_what_is_born_in_it(framework, kit):
    ending(kit)
    outside = kit.make(2)
    with tenure.scope("work") as s:
        inside = kit.make(100)
        both = kit.add(outside)
    assert kit.values(outside) == [0.0, 1.0]
    for tensor in (inside, both):
        assert tenure.info(tensor).state == "disposed"
        assert tenure.info(tensor).cause == "scope exit"
        assert tenure.info(tensor).scope == "work"
        with pytest.raises(tenure.TensorReleased, match="scope 'work'"):
            kit.add(tensor)
    assert s.remains.freed_bytes == 408


def test_reading_an_outer_tensor_in_a_scope_leaves_it_alone(kit):
    reads = [repr, str, kit.values, kit.numpy, kit.add, kit.touch, len, list, lambda t: t[0], lambda t: float(t[1])]
    for read in reads:
        outside = kit.make(2)
        with tenure.scope() as s:
            read(outside)
        assert kit.values(outside) == [0.0, 1.0]
        assert len(s.remains) == 0
    with tenure.scope():
        tenure.remains(outside)
        tenure.info(outside)
        tenure.memory()
        tenure.holders(outside)
    assert kit.values(outside) == [0.0, 1.0]


def test_looking_at_a_tensor_does_not_lengthen_its_life(kit):
    tensor = kit.make(3)
    ref = weakref.ref(tensor)
    gc.disable()
    try:
        tenure.info(tensor)
        tenure.remains(tensor).holders  # noqa: B018
        tenure.holders(tensor)
        del tensor
        assert ref() is None
    finally:
        gc.enable()


def test_disposing_leaves_nothing_behind(kit):
    others = [kit.make(3) for _ in range(3)]
    refs = [weakref.ref(other) for other in others]
    gc.disable()
    try:
        str(tenure.dispose(others[0]))
        del others
        assert [ref() for ref in refs] == [None] * 3
    finally:
        gc.enable()


def test_a_scope_reports_what_it_cannot_end(kit):
    if kit.ends:
        pytest.skip("its handles can be ended")
    with tenure.scope() as s:
        tensor = kit.make(100)
    assert kit.values(tensor)[5] == 5.0
    for remnant in s.remains:  # NumPy arrays are not claimed at all
        assert (remnant.fate, remnant.nbytes) == ("cannot", 400)


def test_keep_lets_out_into_the_enclosing_scope(kit):
    ending(kit)
    with tenure.scope("outer"):
        with tenure.scope("inner"):
            kept = tenure.keep(kit.make(3))
            lost = kit.make(3)
        assert kit.values(kept) == [0.0, 1.0, 2.0]
        assert tenure.info(lost).state == "disposed"
        assert tenure.info(kept).scope == "outer"
    assert tenure.info(kept).state == "disposed"


def test_keep_forever_leaves_every_scope(kit):
    with tenure.scope(), tenure.scope():
        kept = tenure.keep(kit.make(3), forever=True)
    assert kit.values(kept) == [0.0, 1.0, 2.0]


def test_the_scopes_own_keep_reaches_through_inner_scopes(kit):
    with tenure.scope() as outer:
        with tenure.scope():
            tensor = kit.make(3)
            outer.keep({"any": [tensor]})
    assert kit.values(tensor) == [0.0, 1.0, 2.0]


def test_keep_returns_what_it_was_given(kit):
    value = {"a": [kit.make(2)], "b": 3}
    assert tenure.keep(value) is value
    with tenure.scope() as s:
        assert s.keep(value) is value
        assert tenure.adopt(value) is value
        assert tenure.keep(value, forever=True) is value


def test_adopt_puts_an_older_tensor_under_the_scope(kit):
    ending(kit)
    tensor = kit.make(3)
    with tenure.scope("adopter") as s:
        tenure.adopt([tensor])
        assert any(one is tensor for one in s.tensors())
    assert tenure.info(tensor).state == "disposed"
    assert tenure.info(tensor).scope == "adopter"


def test_adopt_needs_a_scope(kit):
    with pytest.raises(tenure.ScopeError, match="inside `with tenure.scope"):
        tenure.adopt(kit.make(2))


def test_adopting_twice_is_adopting_once(kit):
    ending(kit)
    tensor = kit.make(3)
    with tenure.scope() as s:
        tenure.adopt(tensor)
        tenure.adopt(tensor)
        assert len(s.tensors()) == 1
    assert len(s.remains) == 1


def test_adopting_moves_from_another_scope(kit):
    ending(kit)
    with tenure.scope("outer"):
        tensor = kit.make(3)
        with tenure.scope("inner"):
            tenure.adopt(tensor)
        assert tenure.info(tensor).scope == "inner"
        assert tenure.info(tensor).state == "disposed"


def test_a_returned_tensor_escapes(kit):
    @tenure.scope
    def work():
        middle = kit.make(3)
        return kit.add(middle), middle is None

    out, _ = work()
    assert kit.values(out) == [1.0, 2.0, 3.0]


def test_an_input_returned_unchanged_is_not_claimed(kit):
    tensor = kit.make(3)

    @tenure.scope
    def work(x):
        return None

    with tenure.scope():
        work(tensor)
        same = [tensor][0]
    assert kit.values(tensor) == [0.0, 1.0, 2.0]


def test_a_scope_ends_its_tensors_also_by_an_exception(kit):
    ending(kit)
    with pytest.raises(KeyError), tenure.scope("failing") as s:
        tensor = kit.make(100)
        raise KeyError("mine")
    assert tenure.info(tensor).state == "disposed"
    assert s.remains.freed_bytes == 400


def test_a_scope_passes_exceptions_through_unchanged(kit):
    error = ValueError("mine")
    with pytest.raises(ValueError) as caught, tenure.scope():
        tensor = kit.make(2)
        raise error
    assert caught.value is error


def test_nested_scopes_end_each_its_own(kit):
    ending(kit)
    with tenure.scope("a") as a:
        first = kit.make(1)
        with tenure.scope("b") as b:
            second = kit.make(2)
            with tenure.scope("c") as c:
                third = kit.make(3)
                assert [len(s.tensors()) for s in (a, b, c)] == [1, 1, 1]
            assert [tenure.info(t).state for t in (first, second, third)] == ["live", "live", "disposed"]
        assert [tenure.info(t).state for t in (first, second, third)] == ["live", "disposed", "disposed"]
    assert [s.remains.freed_bytes for s in (a, b, c)] == [4, 8, 12]


def test_a_scope_says_what_it_holds_now(kit):
    ending(kit)
    with tenure.scope("now") as s:
        first = kit.make(100)
        assert [one is first for one in s.tensors()] == [True]
        assert s.nbytes == 400
        assert repr(s) == "<tenure.scope 'now', 1 tensors, 400 bytes>"
        second = kit.make(100)
        assert s.nbytes == 800
        tenure.dispose(first)
        assert s.nbytes == 400
        del second
        assert s.nbytes == 0


def test_a_scope_holds_weakly(kit):
    with tenure.scope() as s:
        for _ in range(5):
            tensor = kit.make(100)
        del tensor
        assert s.tensors() == []
    assert len(s.remains) == 0


def test_ending_a_scope_early(kit):
    ending(kit)
    with tenure.scope() as s:
        tensor = kit.make(100)
        told = s.end()
        assert told.freed_bytes == 400
        with pytest.raises(tenure.TensorReleased):
            kit.touch(tensor)
        later = kit.make(3)
    assert kit.values(later) == [0.0, 1.0, 2.0]
    assert s.remains == told


def test_what_was_disposed_inside_is_already_ended(kit):
    ending(kit)
    with tenure.scope() as s:
        tensor = kit.make(100)
        assert tenure.dispose(tensor).freed_bytes == 400
    assert s.remains.freed_bytes == 0
    assert tenure.info(tensor).cause == "dispose"


def test_a_generators_tensors_escape_as_they_are_yielded(kit):
    @tenure.scope
    def batches():
        for _ in range(3):
            yield kit.make(3)

    for batch in batches():
        assert kit.values(batch) == [0.0, 1.0, 2.0]


def test_a_scope_does_not_change_numbers(kit):
    def work():
        a = kit.make(4, 4)
        for _ in range(5):
            a = a * a + kit.make(4, 4)
        return a

    assert kit.values(tenure.scope(work)()) == kit.values(work())


# ------------------------------------------------------------------------------------------------ variables


def test_a_variable_is_never_claimed(kit):
    if kit.variable is None:
        pytest.skip("it has no variables")
    with tenure.scope() as s:
        variable = kit.variable(3)
        assert all(one is not variable for one in s.tensors())
    assert kit.values(kit.add(variable)) == [2.0, 2.0, 2.0]


def test_a_variable_can_be_disposed(framework, kit):
    if kit.variable is None:
        pytest.skip("it has no variables")
    variable = kit.variable(3)
    told = tenure.dispose(variable)
    assert told.freed_bytes == 12
    assert tuple(variable.shape) == (3,)
    assert repr(variable).startswith(f"<released {framework}")
    with pytest.raises(tenure.TensorReleased):
        kit.add(variable)


def test_an_adopted_variable_ends_with_the_scope(kit):
    if kit.variable is None:
        pytest.skip("it has no variables")
    variable = kit.variable(3)
    with tenure.scope() as s:
        tenure.adopt(variable)
    assert s.remains.freed_bytes == 12
    assert tenure.info(variable).cause == "scope exit"
