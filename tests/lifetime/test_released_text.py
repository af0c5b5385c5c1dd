"""What TensorReleased says, and that showing an ended tensor never raises."""

import pickle
import traceback

import pytest

import tenure

torch = pytest.importorskip("torch")


def line_of(mark):
    with open(__file__) as file:
        (number,) = [n for n, text in enumerate(file, 1) if text.rstrip().endswith(f"# here: {mark}")]
    return number


def place(mark):
    return f"{__file__}:{line_of(mark)}"


def text_of(use):
    with pytest.raises(tenure.TensorReleased) as caught:
        use()
    return str(caught.value)


def test_it_names_everything_after_a_scope():
    with tenure.scope("forward"):  # here: scope
        hidden = torch.ones(2, 3, dtype=torch.float64)  # here: birth
    with pytest.raises(tenure.TensorReleased) as caught:
        torch.relu(hidden)  # here: use
    lines = str(caught.value).splitlines()
    assert lines[0] == "relu() used torch tensor float64[2, 3] on cpu after it was released"
    assert lines[1].startswith(f"  created:  {place('birth')} in test_it_names_everything_after_a_scope()")
    assert "hidden = torch.ones" in lines[1]
    assert lines[2].startswith(f"  released: by the exit of scope 'forward' at {place('scope')}")
    assert lines[3].startswith(f"  used:     {place('use')}")
    assert lines[4].startswith("  fix:      return it from the scope, call `tenure.keep(x)` before the scope ends")
    assert len(lines) == 5


def test_it_names_everything_after_dispose():
    with tenure.scope("s"):
        x = torch.ones(4)  # here: second birth
        tenure.dispose(x)  # here: second end
        text = text_of(lambda: x.sum())  # here: second use
    assert text.startswith("sum() used torch tensor float32[4] on cpu after it was released\n")
    assert f"created:  {place('second birth')}" in text
    assert f"released: by dispose at {place('second end')}" in text
    assert f"used:     {place('second use')}" in text
    assert "fix:      call `tenure.dispose(x)` after the last use, or copy what you need first" in text


def test_an_unrecorded_creation_is_unknown():
    x = torch.ones(4)
    tenure.dispose(x)
    assert "  created:  unknown (tenure records where tensors are created only inside a scope)\n" in text_of(
        lambda: x + 1
    )


def test_an_unnamed_scope_goes_by_its_place():
    with tenure.scope():  # here: unnamed
        x = torch.ones(1)
    assert f"scope 'test_released_text.py:{line_of('unnamed')}'" in text_of(lambda: x + 1)


def test_a_decorated_function_names_the_scope():
    leaked = []

    @tenure.scope
    def forward():
        leaked.append(torch.ones(1))

    forward()
    assert "forward'" in text_of(lambda: leaked[0] + 1)


@pytest.mark.parametrize(
    ("use", "op"),
    [
        (lambda x: x + 1, "add()"),
        (lambda x: 1 - x, "__rsub__()"),
        (lambda x: x @ x, "matmul()"),
        (lambda x: x[0], "__getitem__()"),
        (lambda x: x.numpy(), "numpy()"),
        (lambda x: torch.cat([x]), "cat()"),
        (lambda x: x.grad, ".grad"),
        (lambda x: x.data, ".data"),
        (lambda x: torch.nn.functional.linear(x, x), "linear()"),
        (lambda x: torch.ops.aten.add(x, x), "add()"),
    ],
)
def test_the_operation_is_named(use, op):
    x = torch.ones(2, 2)
    tenure.dispose(x)
    assert op in text_of(lambda: use(x)).splitlines()[0]


def test_of_two_operands_the_ended_one_is_described():
    live, dead = torch.ones(5), torch.ones(5, dtype=torch.int32)
    tenure.dispose(dead)
    assert "int32[5]" in text_of(lambda: live + dead)
    assert "int32[5]" in text_of(lambda: torch.stack([live, dead]))


def test_the_error_carries_its_facts():
    x = torch.ones(2, 3)
    tenure.dispose(x)
    with pytest.raises(tenure.TensorReleased) as caught:
        x.tolist()
    error = caught.value
    assert isinstance(error, tenure.TenureError)
    assert isinstance(error, RuntimeError)
    assert error.tensor == tenure.info(x)
    assert error.used.file == __file__
    assert error.used.function == "test_the_error_carries_its_facts"


def test_the_error_can_be_printed_and_pickled():
    x = torch.ones(2)
    tenure.dispose(x)
    with pytest.raises(tenure.TensorReleased) as caught:
        x.tolist()
    assert "tolist() used torch tensor float32[2] on cpu after it was released" in "".join(
        traceback.format_exception(caught.value)
    )
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_the_error_does_not_keep_the_tensor():
    import gc
    import weakref

    x = torch.ones(2)
    tenure.dispose(x)
    try:
        x.tolist()
    except tenure.TensorReleased as caught:
        error = caught.with_traceback(None)
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None
    assert "float32[2]" in str(error)


def test_jax_names_everything(jax):
    with tenure.scope("forward"):  # here: jax scope
        hidden = jax.numpy.ones((2, 3)) + 1  # here: jax birth
    text = text_of(lambda: hidden.sum())  # here: jax use
    assert text.startswith("jax array float32[2, 3] on cpu:0 was used after it was released\n")
    assert place("jax birth") in text
    assert f"released: by the exit of scope 'forward' at {place('jax scope')}" in text
    assert place("jax use") in text
    assert "fix:      return it from the scope" in text


def test_tensorflow_names_everything(tf):
    variable = tf.Variable([1.0, 2.0])
    tenure.dispose(variable)  # here: tf end
    text = text_of(lambda: variable + 1)  # here: tf use
    assert "tensorflow variable float32[2] on CPU:0 after it was released\n" in text
    assert f"released: by dispose at {place('tf end')}" in text
    assert place("tf use") in text
    assert "fix:" in text


def test_owned_names_everything(np):
    with tenure.scope("s"):  # here: owned scope
        owned = tenure.own(np.ones(3))  # here: owned birth
    text = text_of(lambda: owned + 1)  # here: owned use
    assert "numpy owned tensor float64[3]" in text
    assert place("owned birth") in text
    assert place("owned scope") in text
    assert place("owned use") in text


# ------------------------------------------------------------------------------------------------ showing


def shown(x):
    yield repr(x)
    yield str(x)
    yield f"{x}"
    yield f"{x!r}"
    yield "{} {!r}".format(*[x, x])
    yield format(x, ".3f")
    yield f"{[x]}"
    yield f"{ {'x': x} }"


def ended_tensors():
    yield torch.ones(2, 3)
    yield torch.ones(())
    yield torch.ones(0)
    yield torch.nn.Parameter(torch.ones(2))
    yield torch.ones(2, dtype=torch.complex64)
    yield torch.ones(2, dtype=torch.bool)
    yield torch.ones(1000, 1000, dtype=torch.int8)
    yield torch.ones(4)[1:]
    yield torch.ones(2, 2).to_sparse()
    yield torch.ones(2, 2).to_sparse_csr()
    grown = torch.ones(2, requires_grad=True) * 2
    grown.retain_grad()
    yield grown


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_showing_an_ended_torch_tensor_never_raises():
    for tensor in ended_tensors():
        tenure.dispose(tensor)
        for text in shown(tensor):
            assert "<released torch" in text
            assert "by dispose at test_released_text.py" in text


def test_showing_a_disposed_model_never_raises():
    model = torch.nn.Linear(2, 2)
    tenure.dispose(model)
    assert "Linear" in repr(model)
    assert "<released torch parameter" in repr(dict(model.named_parameters()))
    assert "<released torch parameter" in str(list(model.parameters()))


def test_showing_an_ended_jax_array_never_raises(jax):
    for array in (jax.numpy.ones(3), jax.numpy.ones(()), jax.numpy.ones(0)):
        tenure.dispose(array)
        for text in shown(array):
            assert "<released jax" in text


def test_showing_an_ended_jax_key_never_raises(jax):
    key = jax.random.key(1)
    tenure.dispose(key)
    for text in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert "<released jax" in text


def test_showing_an_ended_tensorflow_variable_never_raises(tf):
    for variable in (tf.Variable([1.0]), tf.Variable(1), tf.Variable(["text"]), tf.Variable([1.0], name="named")):
        tenure.dispose(variable)
        for text in shown(variable):
            assert "<released tensorflow variable" in text


@pytest.mark.parametrize("framework_name", ["torch", "jax", "tensorflow", "numpy"])
def test_showing_an_ended_owned_never_raises(framework_name, request):
    library = request.getfixturevalue({"tensorflow": "tf", "numpy": "np"}.get(framework_name, framework_name))
    owned = tenure.own((library.numpy if framework_name == "jax" else library).ones(3))
    tenure.dispose(owned)
    for text in (repr(owned), str(owned), f"{owned}", f"{[owned]}"):
        assert f"<released {framework_name}" in text


def test_an_epitaph_is_one_line():
    with tenure.scope("a\nb"):
        x = torch.ones(2)
    assert "\n" not in repr(x)
