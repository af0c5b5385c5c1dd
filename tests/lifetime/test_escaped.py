"""What has escaped from its scopes: arrays of objects carry tensors out, and the place of birth stays known."""

import pytest

import tenure

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


def boxed():
    box = np.empty((2, 1), dtype=object)
    box[0, 0], box[1, 0] = torch.ones(2), [torch.ones(3)]
    return box


def states(box):
    return [tenure.info(one).state for one in (box[0, 0], box[1, 0][0])]


def test_tensors_in_an_array_of_objects():
    returned = tenure.scope(boxed)()
    with tenure.scope():
        kept, left = tenure.keep(boxed()), boxed()
    assert states(returned) == states(kept) == ["live", "live"]
    assert states(left) == ["disposed", "disposed"]
    tenure.dispose(returned)
    assert states(returned) == ["disposed", "disposed"]


@pytest.mark.parametrize("forever", [False, True])
def test_the_place_of_birth_of_what_was_kept(forever):
    with tenure.scope("first"):
        kept = tenure.keep(torch.ones(3), forever=forever)
    assert tenure.info(kept).born.line == 34
    tenure.dispose(kept)
    with pytest.raises(tenure.TensorReleased, match=r"created:  .*test_escaped.py:34"):
        kept.sum()


def test_the_place_of_birth_of_what_was_returned():
    made = tenure.scope("made")(lambda: torch.ones(3))()
    tenure.dispose(made)
    with pytest.raises(tenure.TensorReleased, match=r"created:  .*test_escaped.py:42"):
        made.sum()
    one, other = tenure.scope(lambda: (torch.ones(3), torch.zeros(3)))()
    torch.utils.swap_tensors(one, other)
    assert tenure.info(one).born.line == 46
