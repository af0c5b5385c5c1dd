"""What DJL tests of its managers, and what JavaCPP, tensorflow/java, ND4J, Nx and trio test of theirs, as it reads here.

Left out: DJL 1 and 5, tempAttach (borrow and give back): not there yet · DJL 2 and 4, results that belong to the manager
of an input: a scope follows the code, not the operands · JavaCPP: scopes that take only some types, extended scopes,
wrong classes · tf-java: default session · ND4J: named arenas and their generations, leverage (copying out), toggling ·
Nx: donatable marks and templates (jax.jit's own business) · trio: nurseries, cancellation.
"""

import contextlib
import gc
import os
import threading
import weakref

import pytest

import tenure
from tenure.lifetime import regions

torch = pytest.importorskip("torch")
FALLBACK = os.environ.get("TENURE_NATIVE") == "0"


def usage():
    gc.collect()  # what another test left
    return tenure.memory().framework("torch")


def state(tensor):
    return tenure.info(tensor).state


# ------------------------------------------------------------------------------------------------ DJL


def test_a_capped_scope_refuses_to_grow():
    with pytest.raises(tenure.CapExceeded, match="its cap is 100 bytes") as caught:
        with tenure.scope("capped", cap=100):
            kept = [torch.ones(10) for _ in range(4)]
            kept.append(torch.ones(10))
    assert isinstance(caught.value, MemoryError)
    assert "test_djl_behaviours.py" in str(caught.value)
    assert "fix:" in str(caught.value)


def test_a_capped_scope_refuses_the_result_of_indexing():
    with pytest.raises(tenure.CapExceeded):
        with tenure.scope(cap=50):
            x = torch.ones(10)
            y = x[[0, 1, 2]]
            z = torch.ones(1)


def test_a_cap_leaves_the_state_consistent():
    with contextlib.suppress(tenure.CapExceeded), tenure.scope(cap=50) as s:
        a = torch.ones(10)
        b = torch.ones(10)
        c = torch.ones(10)
    assert state(a) == "disposed"
    assert regions.opened() == []
    with tenure.scope(cap=50):
        assert torch.ones(10).sum().item() == 10.0


def test_a_cap_counts_what_is_alive_not_what_was():
    with tenure.scope(cap=100):
        for n in range(20):
            tensor = torch.full((10,), float(n))
    assert state(tensor) == "disposed"


def test_a_cap_counts_aliases_once():
    with tenure.scope(cap=45):
        tensor = torch.ones(10)
        views = [tensor[:n] for n in range(5)]
    assert state(views[0]) == "disposed"


def test_nested_scopes_disposed_inside_kept_and_plain():
    with tenure.scope("manager"):
        with tenure.scope("scope"):
            by_hand, unregistered, detached, plain = (torch.ones(2) for _ in range(4))
            tenure.dispose(by_hand)
            tenure.keep(unregistered)
            tenure.keep(detached, forever=True)
        assert [state(t) for t in (by_hand, unregistered, detached, plain)] == ["disposed", "live", "live", "disposed"]
        with pytest.raises(tenure.TensorReleased, match="scope 'scope'"):
            plain + 1
    assert [state(t) for t in (unregistered, detached)] == ["disposed", "live"]


def test_an_overwritten_loop_variable_goes_at_once():
    with tenure.scope() as s:
        array = torch.ones(1)
        for _ in range(5):
            array = torch.cat([array, torch.ones(1)])
            assert [tensor is array for tensor in s.tensors()] == [True]
    assert array.shape == (6,)


# ------------------------------------------------------------------------------------------------ JavaCPP, tf-java


def test_many_threads_bytes_back_to_nothing():
    before = usage()

    def work():
        with tenure.scope():
            kept = [torch.ones(100) for _ in range(20)]
            assert sum(tensor.sum().item() for tensor in kept) == 2000.0

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tenure.memory().framework("torch") == before


def test_an_attached_object_can_still_be_collected():
    with tenure.scope() as s:
        tensor = tenure.adopt(torch.ones(3))
        dead = weakref.ref(tensor)
        del tensor
        assert dead() is None
        assert s.tensors() == []


def test_what_is_made_after_the_inner_scope_belongs_to_the_outer():
    with tenure.scope("outer") as outer:
        with tenure.scope("inner"):
            inside = torch.ones(1)
        after = torch.ones(1)
        assert tenure.info(after).scope == "outer"
    assert state(inside) == state(after) == "disposed"
    assert len(outer.remains) == 1


def test_an_ended_scope_owns_nothing_more():
    with tenure.scope() as s:
        s.end()
        tensor = torch.ones(1)
        assert s.tensors() == []
        assert tenure.info(tensor).scope is None
        with pytest.raises(tenure.ScopeError):
            tenure.adopt(tensor)
    assert state(tensor) == "live"


# ------------------------------------------------------------------------------------------------ ND4J


def test_the_scope_is_restored_after_an_exception():
    with tenure.scope("outer"):
        with contextlib.suppress(ZeroDivisionError), tenure.scope("inner"):
            1 / 0
        assert tenure.info(torch.ones(1)).scope in ("outer", None)
        tensor = torch.ones(1)
        assert tenure.info(tensor).scope == "outer"


def test_a_copy_survives_and_the_original_does_not():
    with tenure.scope() as s:
        original = torch.ones(3)
        copy = s.keep(original.clone())
    assert copy.tolist() == [1.0, 1.0, 1.0]
    assert state(original) == "disposed"


def test_a_view_kept_out_of_a_scope_keeps_its_bytes():
    with tenure.scope() as s:
        base = torch.arange(4.0)
        view = s.keep(base[1:3])
    assert view.tolist() == [1.0, 2.0]
    assert state(base) == "disposed"
    assert s.remains.held_bytes == 16


def test_a_kept_tensor_survives_the_reuse_of_the_inner_scope():
    work = tenure.scope("inner")(lambda n: torch.full((2,), float(n)))
    first = work(1)
    second = work(2)
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [2.0, 2.0])


# ------------------------------------------------------------------------------------------------ Nx, JAX


def test_printing_a_dead_array_says_that_it_is_dead(jax):
    array = jax.numpy.ones(3)
    tenure.dispose(array)
    assert "<released " in repr(array)


def donated(jax):
    """The state and cause of a donated array: from 0.11 on JAX says the same of one as of a deleted one."""
    return ("donated", "donate") if jax.__version_info__ < (0, 11) else ("deleted", "delete")


def test_a_donated_input_is_reported_as_donated_where_jax_does(jax):
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jax.numpy.ones(100) + 0
    y = step(x)
    assert (state(x), tenure.info(x).cause) == donated(jax)
    assert [remnant.fate for remnant in tenure.dispose(x)] == ["already"]
    assert y[0] == 2.0


def test_what_is_not_donated_is_untouched(jax):
    step = jax.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jax.numpy.ones(100) + 0, jax.numpy.ones(100) + 0
    step(x, y)
    assert (state(x), state(y)) == (donated(jax)[0], "live")


def test_deleted_by_jax_itself_is_already_ended(jax):
    array = jax.numpy.ones(3) + 0
    array.delete()
    assert state(array) == "deleted"
    assert [remnant.fate for remnant in tenure.dispose(array)] == ["already"]


def test_a_scope_leaves_what_jax_deleted_itself(jax):
    with tenure.scope() as s:
        array = jax.numpy.ones(3) + 0
        array.delete()
    assert s.remains.freed_bytes == 0


# ------------------------------------------------------------------------------------------------ trio


def test_very_deep_nesting():
    with contextlib.ExitStack() as stack:
        tensors = []
        for _ in range(30):
            stack.enter_context(tenure.scope())
            tensors.append(torch.ones(1))
    assert {state(tensor) for tensor in tensors} == {"disposed"}


def test_a_scope_leaves_no_cyclic_garbage():
    def work():
        with tenure.scope() as s:
            torch.ones(3)
            dead.append(weakref.ref(s))
        return s.remains

    dead = []
    work()
    gc.collect()
    gc.disable()
    try:
        work()
        assert dead[-1]() is None
    finally:
        gc.enable()


def test_a_scope_in_an_exit_stack_that_is_moved_out():
    with contextlib.ExitStack() as stack:
        stack.enter_context(tenure.scope("moved"))
        tensor = torch.ones(1)
        later = stack.pop_all()
    assert state(tensor) == "live"
    later.close()
    assert state(tensor) == "disposed"


def test_misnested_with_an_error_underway_keeps_the_error():
    outer, inner = tenure.scope("outer"), tenure.scope("inner")
    outer.__enter__()
    inner.__enter__()
    error = ValueError("mine")
    outer.__exit__(ValueError, error, None)
    assert "'inner'" in error.__notes__[0]
    inner.__exit__(None, None, None)
