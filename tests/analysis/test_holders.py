"""Who keeps a tensor: every kind of holder planted and found, and what a search must not do."""

from __future__ import annotations

import collections
import functools
import gc
import importlib
import inspect
import pathlib
import re
import subprocess
import sys
import threading
import time
import types
import weakref

import planted
import planted_in_torch
import pytest

import tenure
import tenure.frameworks
from tenure.analysis.holders import find

PACKAGE = pathlib.Path(tenure.__file__).parent


@pytest.fixture(autouse=True)
def bare_ground():
    yield
    planted.GLOBAL.clear()
    planted.LATER.clear()


def matching(x, kind, pattern):
    return [holder for holder in tenure.holders(x) if holder.kind == kind and re.search(pattern, holder.name)]


def told(x):
    return [f"{holder.kind}: {holder.name}" for holder in tenure.holders(x)]


def check(plant, x):
    steps = plant(x)
    kind, pattern = next(steps)
    found = matching(x, kind, pattern)
    assert found, told(x)
    assert len(found) == 1, "one reference, one holder"
    next(steps, None)
    assert not matching(x, kind, pattern), told(x)


@pytest.mark.parametrize("plant", planted.EVERYWHERE, ids=lambda plant: plant.__name__)
def test_planted(plant, torch):
    check(plant, torch.ones(3))


@pytest.mark.parametrize("plant", planted_in_torch.TORCH, ids=lambda plant: plant.__name__)
def test_planted_in_torch(plant, torch):
    check(plant, torch.ones(3))


# ------------------------------------------------------------------------------------------------ frames


def line_of(function, text):
    """The line of a function on which `text` stands."""
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if text in line)


def test_a_local_is_named_with_its_function_and_the_line_that_bound_it(torch):
    def main():
        x = torch.ones(3)
        other = 1
        return tenure.holders(x)

    (holder,) = main()
    assert (holder.kind, holder.name) == ("local", "x")
    assert holder.site.file == __file__
    assert holder.site.line == line_of(main, "x = torch")
    assert holder.site.function.endswith("main")
    assert str(holder) == f"local x ({holder.site.short})"


def test_the_last_binding_before_the_running_line_counts(torch):
    def main():
        x = torch.zeros(1)
        x = torch.ones(3)
        found = tenure.holders(x)
        x = None
        return found

    assert main()[0].site.line == line_of(main, "x = torch.ones")


def test_arguments_of_callers_count_each(torch):
    def outer():
        mine = torch.ones(3)
        return inner(mine)

    def inner(given):
        return tenure.holders(given)

    assert [holder.name for holder in outer()] == ["given", "mine"]


def test_two_lists_are_two_holders(torch):
    def main():
        first, second = [torch.ones(3)], []
        second.append(first[0])
        return tenure.holders(first[0])

    assert sorted(holder.name for holder in main()) == ["first[0]", "second[0]"]


def test_attributes_of_self_in_a_running_method(torch):
    class Loop:
        def run(self):
            self.history = [torch.ones(3)]
            return tenure.holders(self.history[0])

    (holder,) = Loop().run()
    assert (holder.kind, holder.name) == ("local", "self.history[0]")


def test_a_class_body_being_executed(torch):
    class Body:
        x = torch.ones(3)
        found = tenure.holders(x)

    assert ("local", "x") in {(holder.kind, holder.name) for holder in Body.found}


def test_a_generator_in_a_for_loop_is_a_beginning_of_its_own(torch):
    def batches():
        batch = torch.ones(3)
        yield 1
        yield batch

    def main():
        for _ in batches():
            tensor = next(thing for thing in gc.get_objects() if type(thing) is torch.Tensor and thing.shape == (3,))
            return [holder for holder in tenure.holders(tensor) if holder.name != "tensor"]

    (holder,) = main()
    assert holder.kind == "generator"
    assert holder.name.endswith("batches() local batch")
    assert str(holder).startswith("generator ")
    assert holder.site.line == line_of(batches, "batch = ")


def test_the_exception_being_handled(torch):
    def main():
        x = torch.ones(3)
        try:
            planted.fail(x)
        except ValueError:
            return tenure.holders(x)

    names = {holder.name: holder.kind for holder in main()}
    assert names["being handled → exception ValueError → traceback frame fail() local mine"] == "exception"


def test_the_site_of_a_global_is_its_assignment(tmp_path, torch):
    (tmp_path / "settings_of_mine.py").write_text("import torch\n\n\nif True:\n    cache = {'w': torch.ones(3)}\n")
    sys.path.insert(0, str(tmp_path))
    try:
        module = importlib.import_module("settings_of_mine")
    finally:
        sys.path.remove(str(tmp_path))
    (holder,) = tenure.holders(module.cache["w"])
    assert str(holder) == "global settings_of_mine.cache['w'] (settings_of_mine.py:5)"
    del sys.modules["settings_of_mine"]


def test_a_script_says_its_globals_without_a_module(tmp_path):
    script = "import torch, tenure\nhistory = []\nhistory.append(torch.ones(3))\nprint(tenure.holders(history[0])[0])\n"
    (tmp_path / "train.py").write_text(script)
    done = subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "global history[0] (train.py:2)"


# ------------------------------------------------------------------------------------------------ what has no name


def test_a_cycle_is_told_as_one_and_ends_with_a_collection(torch):
    class Node:
        def __init__(self, value):
            self.value = value
            self.again = self.method

        def method(self):
            return self

    x = torch.ones(3)
    gc.disable()
    try:
        Node(x)
        pattern = r"Node\.again → bound method .*Node\.method → self → .*Node\.value$"
        assert matching(x, "cycle", pattern), told(x)
        assert matching(x, "cycle", pattern), "the search itself must not collect"
    finally:
        gc.enable()
    gc.collect()
    assert [holder.name for holder in tenure.holders(x)] == ["x"]


def test_a_tensor_whose_hook_closes_over_it(torch):
    def watch():
        feat = torch.ones(3, requires_grad=True) * 1
        feat.register_hook(lambda grad: grad * feat.norm())
        return weakref.ref(feat)

    gc.disable()
    try:
        ref = watch()
        found = [holder for holder in tenure.holders(ref()) if holder.kind == "cycle"]
        cell = r"closure cell feat of <function \S+>"
        assert re.fullmatch(rf"{cell} → feat\._backward_hooks\[\d+\] → {cell}", found[0].name)
    finally:
        gc.enable()
    ref()._backward_hooks.clear()  # torch has no other way out of this
    assert ref() is None


def test_what_only_native_code_holds_is_said_to_be_so(torch):
    x = torch.ones(3)
    assert not matching(x, "native", "")
    planted.GLOBAL.append(torch._C.ScriptList([x]))  # only C++ knows what is in it
    (holder,) = matching(x, "native", "")
    assert holder.name == "1 further reference from native code"
    planted.GLOBAL.clear()
    assert not matching(x, "native", "")


def test_nothing_native_is_claimed_of_ordinary_tensors(torch):
    x = torch.ones(3)
    model = torch.nn.Linear(3, 3)
    y = model(x[:])
    y.sum().backward()
    array, view = x.numpy(), x.view(3, 1)
    for tensor in (x, y, model.weight, model.weight.grad, view):
        assert not matching(tensor, "native", "")


def test_bytes_that_outlive_every_handle(torch):
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    wanted = buffers(y)
    loss = y.sum()
    del y
    (holder,) = find([], wanted)
    assert (holder.kind, holder.name) == ("local", "loss → autograd SumBackward0 → ExpBackward0 → saved result")
    del loss
    (holder,) = find([], wanted)
    assert (holder.kind, holder.name) == ("native", "native code")


def test_after_dispose_the_report_names_the_view(torch):
    def main():
        x = torch.ones(3)
        v = x[1:]
        return tenure.dispose(x)

    (remnant,) = main().remnants
    assert remnant.fate == "held"

    def again():
        x = torch.ones(3)
        v = x[1:]
        return [str(holder) for holder in tenure.dispose(x).holders]

    assert again() == [f"view v (test_holders.py:{line_of(again, 'v = x')})"]


# ------------------------------------------------------------------------------------------------ what must not be


def buffers(x):
    framework = tenure.frameworks.owner(x)
    return framework.buffers(x)


def test_weak_references_do_not_hold(torch):
    x = torch.ones(3)
    by_value, by_key = weakref.WeakValueDictionary(x=x), weakref.WeakKeyDictionary({x: 1})
    some, ref = weakref.WeakSet([x]), weakref.ref(x)
    assert [holder.name for holder in tenure.holders(x)] == ["x"]


def test_tenures_own_references_never_appear(torch):
    def main():
        with tenure.scope("step") as scope:
            x = torch.ones(3)
            tenure.keep(x)
            box = [x]
            kept = tenure.own(torch.ones(2))
            found = [
                *tenure.holders(x),
                *tenure.holders(box),
                *tenure.remains(box).holders,
                *find([x], buffers(x), limit=99),
            ]
            return {holder.name for holder in found}, {holder.name for holder in tenure.holders(kept)}

    names, owned = main()
    assert names == {"x", "box[0]"}
    assert owned == {"kept._value"}


def test_the_users_frames_between_tenures_count(torch):
    @tenure.scope("outer")
    def outer(given):
        with tenure.scope("inner"):
            return [holder.name for holder in tenure.holders(given)]

    x = torch.ones(3)
    assert outer(x) == ["given", "x"]


def test_a_search_lengthens_no_life(torch):
    from torch.multiprocessing.reductions import StorageWeakRef

    def fresh():
        x = torch.ones(3)
        keep = [lambda: x]
        return x, keep

    def suspended():
        y = yield
        yield tenure.holders(y)
        del y
        yield

    x, keep = fresh()
    generator = suspended()
    next(generator)
    generator.send(x)
    ref, storage = weakref.ref(x), StorageWeakRef(x.untyped_storage())
    gc.disable()
    try:
        tenure.holders(x)
        find([], buffers(x))
        next(generator)
        keep.clear()
        del x
        assert ref() is None
        assert storage.expired()
    finally:
        gc.enable()


def test_a_search_leaves_no_frames_behind(torch):
    x = torch.ones(3)
    gc.collect()
    gc.disable()
    try:
        tenure.holders(x)
        left = [frame for frame in gc.get_objects() if type(frame) is types.FrameType]
        assert not [frame for frame in left if frame.f_code.co_filename.startswith(str(PACKAGE))]
    finally:
        left = None
        gc.enable()


def test_a_search_that_fails_lengthens_no_life(torch, monkeypatch):
    x = torch.ones(3)
    ref = weakref.ref(x)
    monkeypatch.setattr("tenure.analysis.holders.paths.explore", lambda *_: 1 / 0)
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError) as caught:
            tenure.holders(x)
        del caught
        del x
        assert ref() is None
    finally:
        gc.enable()
    assert gc.isenabled()


def test_locals_stay_what_the_user_was_given(torch):
    x, gone = torch.ones(3), 1
    snapshot = locals()
    before = dict(snapshot)
    del gone
    tenure.holders(x)
    if sys.version_info < (3, 13):
        assert snapshot == before
    assert snapshot["x"] is x


def test_variables_survive_a_search_in_a_trace_function(torch):
    x = torch.ones(3)

    def traced():
        a = 1
        b = [a]
        return a, b

    def tracer(frame, event, argument):
        tenure.holders(x)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        assert traced() == (1, [1])
    finally:
        sys.settrace(before)


def test_the_collector_is_left_as_it_was(torch):
    x = torch.ones(3)
    tenure.holders(x)
    assert gc.isenabled()
    gc.disable()
    try:
        tenure.holders(x)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_handles_that_a_search_makes_visible_go_with_their_graph(torch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    gc.collect()
    before = tenure.memory()
    loss = model(torch.ones(2, 4)).exp().mean()
    tenure.holders(loss)
    tenure.holders(model[0].weight)
    del loss
    assert tenure.memory() == before


def test_a_search_inside_a_scope_leaves_gradients_alone(torch):
    model = torch.nn.Linear(3, 3)
    x = torch.ones(2, 3)
    model(x).sum().backward()
    with tenure.scope("look"):
        tenure.holders(torch.ones(3, 3))
    assert float(model.weight.grad.sum()) == 18.0


def test_limit_and_ignore(torch):
    x = torch.ones(3)
    boxes = [[x] for _ in range(20)]
    assert len(tenure.holders(x)) == 8
    assert len(find([x], buffers(x), limit=50)) == 21
    named = {holder.name for holder in find([x], buffers(x), ignore=frozenset({id(boxes[3])}), limit=50)}
    assert "boxes[3][0]" not in named
    assert "boxes[4][0]" in named


# ------------------------------------------------------------------------------------------------ odd objects


class Hostile(Exception):
    """Raised by everything that the search has no business calling."""


def refuse(*_, **__):
    raise Hostile


class Meta(type):
    __getattribute__ = refuse
    __repr__ = refuse
    __eq__ = refuse
    __hash__ = refuse


class Odd:
    __getattribute__ = refuse
    __getattr__ = refuse
    __eq__ = refuse
    __hash__ = refuse
    __repr__ = refuse
    __bool__ = refuse
    __len__ = refuse
    __iter__ = refuse


class Lying:
    """Says that it is something else, and that its attributes are elsewhere."""

    @property
    def __class__(self):
        raise Hostile

    @property
    def __dict__(self):
        raise Hostile


class OddDict(dict):
    __iter__ = items = keys = values = get = __getitem__ = __contains__ = __len__ = __bool__ = __eq__ = __repr__ = (
        refuse
    )


class OddList(list):
    __iter__ = __getitem__ = __len__ = index = __contains__ = __eq__ = __repr__ = refuse


class OddTuple(tuple):  # noqa: SLOT001
    _fields = property(refuse)
    __iter__ = __getitem__ = __len__ = __eq__ = __repr__ = refuse


class OddModule(types.ModuleType):
    __getattribute__ = refuse
    __getattr__ = refuse


class OddKey:
    __eq__ = __repr__ = __str__ = refuse
    __hash__ = object.__hash__


def odd_dict(x):
    return OddDict(k=x)


def odd_list(x):
    return OddList([x])


def odd_tuple(x):
    return OddTuple((x,))


def odd_key(x):
    return {OddKey(): x}


def odd_attribute(x):
    thing = object.__new__(Odd)
    object.__setattr__(thing, "x", x)
    return thing


def lying(x):
    thing = object.__new__(Lying)
    object.__setattr__(thing, "x", x)
    return thing


def odd_class(x):
    return Meta.__new__(Meta, "OddClass", (), {"x": x})


def odd_instance(x):
    thing = object.__new__(Meta.__new__(Meta, "OddClass", (), {}))
    object.__setattr__(thing, "x", x)
    return thing


def odd_slots(x):
    kind = Meta.__new__(Meta, "OddSlots", (), {"__slots__": ("x", "empty")})
    thing = object.__new__(kind)
    object.__setattr__(thing, "x", x)
    return thing


def odd_module(x):
    module = OddModule("odd_module")
    object.__getattribute__(module, "__dict__")["x"] = x
    sys.modules["odd_module"] = module
    return module


def odd_exception(x):
    class Error(Exception):
        args = property(refuse)
        __getattribute__ = refuse

    error = Error.__new__(Error)
    BaseException.__setattr__(error, "x", x)
    return error


def odd_partial(x):
    class Partial(functools.partial):
        func = args = keywords = property(refuse)
        __getattribute__ = refuse

    return Partial(len, x)


def empty_cell(x):
    def f():
        return later, x

    return f
    later = 1


@pytest.mark.parametrize(
    "plant",
    [
        odd_dict,
        odd_list,
        odd_tuple,
        odd_key,
        odd_attribute,
        lying,
        odd_class,
        odd_instance,
        odd_slots,
        odd_module,
        odd_exception,
        odd_partial,
        empty_cell,
    ],
    ids=lambda plant: plant.__name__,
)
def test_odd_objects_are_looked_at_from_outside(plant, torch):
    x = torch.ones(3)
    thing = plant(x)
    box = (0, thing)
    try:
        found = tenure.holders(x)
    finally:
        sys.modules.pop("odd_module", None)
    assert len(found) >= 2, [holder.name for holder in found]


def test_other_threads_may_go_on(torch):
    stop = threading.Event()
    shared = collections.deque(maxlen=50)

    def work():
        while not stop.is_set():
            mine = torch.ones(2)
            shared.append({"x": [mine]})
            table = {str(i): mine for i in range(20)}
            locals()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            x = torch.ones(3)
            shared.append(x)
            names = [holder.name for holder in tenure.holders(x)]
            assert "x" in names
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_tuple_that_is_still_being_filled(torch):
    """`f(*(make() for _ in …))` makes a tuple with empty places, which the heap shows."""

    def parts():
        for at in range(20):
            x = torch.ones(3)
            yield x
            if at % 3 == 0:  # it grows at the tenth and the sixteenth
                assert any("[" in str(holder) or "local" in str(holder) for holder in tenure.holders(x))

    assert len(tuple(parts())) == 20


# ------------------------------------------------------------------------------------------------ other frameworks
# Last, because every search takes longer once they are loaded.


@pytest.mark.parametrize(
    "plant",
    [
        planted.global_list,
        planted.nested_containers,
        planted.closure,
        planted.attribute,
        planted.generator,
        planted.lru_cache,
    ],
)
def test_planted_in_numpy(plant, np):
    # Arrays, and the tuples and dicts that hold nothing else, are unknown to the garbage collector.
    gc.collect()
    check(plant, np.ones(3))


def test_a_tensor_made_from_an_array(np, torch):
    x = np.ones(3)
    planted.GLOBAL.append(torch.from_numpy(x))
    assert matching(x, "torch tensor", r"GLOBAL\[0\]$"), told(x)
    planted.GLOBAL.clear()
    assert not matching(x, "torch tensor", "")


@pytest.mark.parametrize("plant", [planted.global_list, planted.closure, planted.a_dataclass, planted.lru_cache])
def test_planted_in_jax(plant, jax):
    check(plant, jax.numpy.ones(3) * 2)


@pytest.mark.parametrize("plant", [planted.global_list, planted.closure, planted.a_dataclass, planted.lru_cache])
def test_planted_in_tensorflow(plant, tf):
    check(plant, tf.constant([1.0, 2.0]))


def test_tensors_that_travel_between_frameworks(torch, jax):
    x = torch.arange(16.0)
    planted.GLOBAL.append(jax.numpy.from_dlpack(x))
    assert matching(x, "jax tensor", r"GLOBAL\[0\]$"), told(x)
    y = jax.numpy.arange(16.0) * 2
    planted.GLOBAL[0] = torch.from_dlpack(y)
    assert matching(y, "torch tensor", r"GLOBAL\[0\]$"), told(y)
    planted.GLOBAL.clear()
    assert not matching(y, "torch tensor", "")


def test_an_array_made_from_a_jax_array(jax, np):
    x = jax.numpy.ones(3) * 2
    planted.GLOBAL.append({"host": np.asarray(x)})
    assert matching(x, "array", r"GLOBAL\[0\]\['host'\]$"), told(x)
    planted.GLOBAL.clear()
    assert not matching(x, "array", "")


def test_a_search_is_quick(torch, jax, tf):
    import tensorflow.keras  # noqa: F401

    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(50)])
    optimizer = torch.optim.Adam(model.parameters())
    h = torch.ones(4, 8)
    for _ in range(20):
        h = torch.tanh(model(h))
    h.sum().backward(retain_graph=True)
    optimizer.step()
    spent = []
    for x in (h, model[30].weight, optimizer.state[model[7].bias]["exp_avg"], model[3].weight.grad):
        start = time.process_time()
        tenure.holders(x)
        spent.append(time.process_time() - start)
    assert max(spent) < 2, spent
