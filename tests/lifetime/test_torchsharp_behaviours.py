"""What TorchSharp tests of its DisposeScope, as it reads in Python.

Left out: 27: statistics as strings · the seven counters of 11-26 and 31-44, which tenure does not have: what they count
(born, caught, let out, ended, alive) is asked of the tensors, the scope and `memory()` instead · "move to another scope
by tensor" (10) is adopt() while the other scope is current.
"""

import gc

import pytest

import tenure

torch = pytest.importorskip("torch")
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence


def settled():
    gc.collect()  # what another test left
    return live()


def live():
    return tenure.memory().framework("torch").tensors


def state(tensor):
    return tenure.info(tensor).state


def states(*tensors):
    return [state(tensor) for tensor in tensors]


# ------------------------------------------------------------------------------------------------ scopes: 1-10


def test_caught_let_out_moved_with_no_outer_and_disposed_by_hand():
    before = settled()
    with tenure.scope() as s:
        caught, forever, moved, by_hand = (torch.ones(2) for _ in range(4))
        assert len(s.tensors()) == 4
        tenure.keep(forever, forever=True)
        tenure.keep(moved)  # there is no scope around this one
        tenure.dispose(by_hand)
    assert states(caught, forever, moved, by_hand) == ["disposed", "live", "live", "disposed"]
    assert live() == before + 2
    assert len(s.remains.freed) == 1


def test_ending_everything_but_one_in_the_middle_of_a_scope():
    with tenure.scope() as s:
        a, b, kept = torch.ones(1), torch.ones(2), torch.ones(3)
        tenure.dispose([tensor for tensor in s.tensors() if tensor is not kept])
        assert states(a, b, kept) == ["disposed", "disposed", "live"]
        assert [tensor is kept for tensor in s.tensors() if state(tensor) == "live"] == [True]
    assert state(kept) == "disposed"


def test_stacked_scopes_and_every_state_after_each_exit():
    with tenure.scope("outer") as outer:
        with tenure.scope("inner") as inner:
            dies, moves, leaves, by_hand = (torch.ones(2) for _ in range(4))
            inner.keep(moves)
            tenure.keep(leaves, forever=True)
            tenure.dispose(by_hand)
            assert states(dies, moves, leaves, by_hand) == ["live", "live", "live", "disposed"]
        assert states(dies, moves, leaves, by_hand) == ["disposed", "live", "live", "disposed"]
        assert [tensor is moves for tensor in outer.tensors()] == [True]
    assert states(dies, moves, leaves, by_hand) == ["disposed", "disposed", "live", "disposed"]


def test_all_intermediates_of_an_expression_are_gone():
    before = settled()
    with tenure.scope():
        a, b, c = torch.ones(2), torch.ones(2), torch.ones(2)
        product = a * b
        result = product + c
    assert states(a, b, c, product, result) == ["disposed"] * 5
    assert live() == before


def test_moved_to_the_outer_scope_survives_the_inner():
    with tenure.scope():
        with tenure.scope() as inner:
            tensor = inner.keep(torch.ones(2) + 1)
        assert tensor.tolist() == [2.0, 2.0]
    assert state(tensor) == "disposed"


def test_disposing_in_the_middle_a_later_result_dies_at_exit_and_the_input_lives():
    x = torch.ones(3)
    with tenure.scope() as s:
        first = x + 1
        tenure.dispose(first)
        later = x + 2
        assert s.nbytes == 12
    assert states(x, first, later) == ["live", "disposed", "disposed"]
    assert x.sum().item() == 3.0


def test_a_nested_scope_returns_the_live_count_to_the_level_before():
    before = settled()
    with tenure.scope():
        a = torch.ones(1)
        level = live()
        with tenure.scope():
            many = [a + n for n in range(10)]
            assert live() == level + 10
        assert live() == level
    assert live() == before
    assert len(many) == 10


def _train(model, shape, optimizer):
    x = torch.linspace(-1, 1, 24).reshape(shape)
    for _ in range(3):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_a_whole_training_run_in_a_scope_leaves_nothing_and_changes_nothing(kind, optimizer):
    def run():
        torch.manual_seed(1)
        if kind == "linear":
            model, shape = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)), (6, 4)
        else:
            model, shape = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 2), torch.nn.BatchNorm1d(3)), (3, 2, 4)
        return _train(model, shape, getattr(torch.optim, optimizer)(model.parameters(), lr=0.1))

    before = settled()
    expected = run()
    with tenure.scope():
        found = run()
    assert found == expected
    assert live() == before


def test_three_levels_move_detach_and_attach():
    with tenure.scope("a") as a:
        first = torch.ones(1)
        with tenure.scope("b"):
            with tenure.scope("c") as c:
                to_b = c.keep(torch.ones(1))
                free = tenure.keep(torch.ones(1), forever=True)
            assert tenure.info(to_b).scope == "b"
            assert tenure.info(free).scope is None
            tenure.adopt(free)
            assert tenure.info(free).scope == "b"
        assert states(first, to_b, free) == ["live", "disposed", "disposed"]
    assert len(a.remains.freed) == 1


# ------------------------------------------------------------------------------------------------ born inside: 11-17


def test_what_is_born_is_in_the_scope():
    with tenure.scope() as s:
        tensor = torch.ones(2)
        assert [one is tensor for one in s.tensors()] == [True]


def test_adopting_into_its_own_scope_changes_nothing():
    with tenure.scope() as s:
        tensor = torch.ones(2)
        tenure.adopt(tensor)
        assert len(s.tensors()) == 1
    assert len(s.remains) == 1


def test_keeping_twice_moves_once():
    with tenure.scope("outer") as outer:
        with tenure.scope("inner"):
            tensor = torch.ones(2)
            tenure.keep(tensor)
            tenure.keep(tensor)
        assert len(outer.tensors()) == 1
        assert tenure.info(tensor).scope == "outer"


def test_disposing_again_in_a_scope_changes_nothing():
    with tenure.scope() as s:
        tensor = torch.ones(2)
        tenure.dispose(tensor)
        tenure.dispose(tensor)
    assert s.remains.freed_bytes == 0


def test_leaving_the_scope_ends_it():
    with tenure.scope() as s:
        tensor = torch.ones(2)
    assert state(tensor) == "disposed"
    assert s.tensors() == []
    assert repr(s).endswith("exited>")


def test_disposing_after_letting_out_is_an_ordinary_dispose():
    with tenure.scope() as s:
        tensor = tenure.keep(torch.ones(2))
        assert tenure.dispose(tensor).freed_bytes == 8
    assert len(s.remains) == 0


def test_a_parameter_made_from_a_scoped_tensor_lives_and_the_tensor_does_not():
    with tenure.scope() as s:
        tensor = torch.ones(3)
        parameter = torch.nn.Parameter(tensor)
    assert state(tensor) == "disposed"
    assert parameter.sum().item() == 3.0
    assert s.remains.held_bytes == 12


# ------------------------------------------------------------------------------------------------ born outside: 18-26


def test_what_is_born_outside_is_in_no_scope():
    tensor = torch.ones(2)
    with tenure.scope() as s:
        assert s.tensors() == []
    assert state(tensor) == "live"


def test_adopted_it_dies_with_the_scope():
    tensor = torch.ones(2)
    with tenure.scope() as s:
        assert tenure.adopt(tensor) is tensor
        assert s.nbytes == 8
    assert state(tensor) == "disposed"


def test_keeping_what_no_scope_owns_changes_nothing():
    tensor = torch.ones(2)
    assert tenure.keep(tensor) is tensor
    with tenure.scope():
        assert tenure.keep(tensor) is tensor
    assert state(tensor) == "live"


def test_disposed_outside_twice():
    tensor = torch.ones(2)
    assert [len(tenure.dispose(tensor).freed) for _ in range(2)] == [1, 0]


def test_an_adopted_one_disposed_by_hand_is_no_news_at_the_exit():
    tensor = torch.ones(2)
    with tenure.scope() as s:
        tenure.adopt(tensor)
        tenure.dispose(tensor)
    assert s.remains.freed_bytes == 0
    assert tenure.info(tensor).cause == "dispose"


def test_an_adopted_one_can_be_let_out_again():
    tensor = torch.ones(2)
    with tenure.scope() as s:
        tenure.adopt(tensor)
        s.keep(tensor)
    assert state(tensor) == "live"
    assert len(s.remains) == 0


def test_a_second_adoption_is_a_move():
    tensor = torch.ones(2)
    with tenure.scope("outer") as outer:
        tenure.adopt(tensor)
        with tenure.scope("inner") as inner:
            tenure.adopt(tensor)
            assert outer.tensors() == []
            assert len(inner.tensors()) == 1
        assert state(tensor) == "disposed"
    assert len(outer.remains) == 0


# ------------------------------------------------------------------------------------------------ compounds: 28-44


def sequence():
    return pack_sequence([torch.ones(3, 2), torch.ones(2, 2)])


def unsorted_sequence():
    return pack_padded_sequence(torch.ones(3, 2, 2), torch.tensor([2, 3]), enforce_sorted=False)


def parts(packed):
    return [part for part in packed if part is not None]


@pytest.mark.parametrize("make", [sequence, unsorted_sequence])
def test_a_packed_sequence_dies_with_its_scope_and_so_do_its_parts(make):
    with tenure.scope():
        packed = make()
    assert states(*parts(packed)) == ["disposed"] * len(parts(packed))


@pytest.mark.parametrize("make", [sequence, unsorted_sequence])
def test_a_packed_sequence_moves_out_and_dies_one_level_up(make):
    with tenure.scope():
        with tenure.scope() as inner:
            packed = inner.keep(make())
        assert states(*parts(packed)) == ["live"] * len(parts(packed))
    assert states(*parts(packed)) == ["disposed"] * len(parts(packed))


@pytest.mark.parametrize("make", [sequence, unsorted_sequence])
def test_a_packed_sequence_is_returned_adopted_and_disposed_as_one(make):
    packed = tenure.scope(make)()
    assert packed.data.sum().item() == 10.0
    with tenure.scope() as s:
        tenure.adopt(packed)
        assert len(s.tensors()) == len(parts(packed))
        s.keep(packed)
    assert packed.data.sum().item() == 10.0
    told = tenure.dispose(packed)
    assert len(told.freed) + len(told.held) == len(parts(packed))
    assert [remnant.fate for remnant in tenure.dispose(packed)] == ["already"] * len(parts(packed))
    with pytest.raises(tenure.TensorReleased):
        torch.nn.utils.rnn.pad_packed_sequence(packed)


def test_a_packed_sequence_left_alone_is_in_no_scope():
    packed = sequence()
    with tenure.scope() as s:
        assert s.tensors() == []
    assert packed.data.sum().item() == 10.0


# ------------------------------------------------------------------------------------------------ out of order


def test_leaving_the_outer_scope_first_is_a_clear_error_and_still_ends_both():
    outer, inner = tenure.scope("outer"), tenure.scope("inner")
    outer.__enter__()
    a = torch.ones(1)
    inner.__enter__()
    b = torch.ones(1)
    with pytest.raises(tenure.ScopeError, match="'outer' was left while scope 'inner'"):
        outer.__exit__(None, None, None)
    assert states(a, b) == ["disposed", "live"]
    inner.__exit__(None, None, None)
    assert state(b) == "disposed"


def test_keep_from_an_inner_scope_whose_outer_one_was_left_goes_further_out():
    with tenure.scope("outermost") as outermost:
        middle, inner = tenure.scope("middle"), tenure.scope("inner")
        middle.__enter__()
        inner.__enter__()
        tensor = torch.ones(1)
        with pytest.raises(tenure.ScopeError):
            middle.__exit__(None, None, None)
        inner.keep(tensor)
        inner.__exit__(None, None, None)
        assert state(tensor) == "live"
        assert len(outermost.tensors()) == 1
    assert state(tensor) == "disposed"
