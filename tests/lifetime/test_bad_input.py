"""Whatever is handed in: a clear error of tenure's, or an honest report; never a crash, never a foreign traceback.

What could crash runs in children (see conftest.py). Each case returns what it was told as text, or raises.
"""

import functools
import os
import tempfile

import pytest

import tenure

torch = pytest.importorskip("torch")
CASES = {"torch": {}, "jax": {}, "tensorflow": {}, "numpy": {}}
PREPARE = {}
FALLBACK = os.environ.get("TENURE_NATIVE") == "0"

NO_TENSORS = ["text", b"bytes", 7, 1.5, 2j, None, True, int, torch.Tensor]

# ------------------------------------------------------------------------------------------------ no tensors at all


@pytest.mark.parametrize("call", [tenure.dispose, tenure.remains])
@pytest.mark.parametrize("thing", NO_TENSORS, ids=repr)
def test_what_cannot_contain_a_tensor_is_refused(call, thing):
    with pytest.raises(tenure.Unsupported, match="takes a tensor, or containers and objects") as caught:
        call(thing)
    assert type(thing).__name__ in str(caught.value)


@pytest.mark.parametrize("thing", NO_TENSORS, ids=repr)
def test_adopt_refuses_it_too(thing):
    with tenure.scope(), pytest.raises(tenure.Unsupported, match="adopt"):
        tenure.adopt(thing)


@pytest.mark.parametrize("thing", [*NO_TENSORS, [], {}, object()], ids=lambda thing: type(thing).__name__)
def test_keep_passes_it_through(thing):
    assert tenure.keep(thing) is thing
    assert tenure.keep(thing, forever=True) is thing
    with tenure.scope() as s:
        assert tenure.keep(thing) is thing
        assert s.keep(thing) is thing


@pytest.mark.parametrize(
    "thing", [*NO_TENSORS, [], [torch.ones(1)], {}, object()], ids=lambda thing: type(thing).__name__
)
def test_info_takes_one_tensor(thing):
    with pytest.raises(tenure.Unsupported, match="info.. takes one tensor"):
        tenure.info(thing)


@pytest.mark.parametrize(
    "thing", [*NO_TENSORS, [], [torch.ones(1)], {}, object()], ids=lambda thing: type(thing).__name__
)
def test_own_takes_one_tensor(thing):
    with pytest.raises(tenure.Unsupported, match="own.. takes one tensor"):
        tenure.own(thing)


@pytest.mark.parametrize("thing", [*NO_TENSORS[:-2], [], {}], ids=repr)
def test_carry_takes_a_function(thing):
    with pytest.raises(tenure.Unsupported, match="carry.. takes a function"):
        tenure.carry(thing)


def test_own_refuses_an_ended_tensor():
    x = torch.ones(2)
    tenure.dispose(x)
    with pytest.raises(tenure.Unsupported, match="disposed"):
        tenure.own(x)


def test_an_ended_tensor_can_be_kept_and_adopted_without_harm():
    x = torch.ones(2)
    tenure.dispose(x)
    with tenure.scope() as s:
        assert tenure.keep(x) is x
        assert tenure.adopt(x) is x
    assert tenure.info(x).cause == "dispose"
    assert s.remains.freed_bytes == 0


# ------------------------------------------------------------------------------------------------ scopes


def test_a_scope_entered_twice():
    s = tenure.scope("once")
    with s, pytest.raises(tenure.ScopeError, match="'once' was entered already") as caught:
        s.__enter__()
    assert "test_bad_input.py" in str(caught.value)
    with pytest.raises(tenure.ScopeError, match="use a scope only once"):
        s.__enter__()


def test_a_scope_left_twice_is_left_once():
    s = tenure.scope()
    with s:
        x = torch.ones(1)
    s.__exit__(None, None, None)
    y = torch.ones(1)
    s.__exit__(None, None, None)
    assert (tenure.info(x).state, tenure.info(y).state) == ("disposed", "live")
    assert s.end().freed_bytes == 4


def test_a_scope_never_entered():
    s = tenure.scope("idle")
    for use in (lambda: s.__exit__(None, None, None), s.end, lambda: s.keep(1)):
        with pytest.raises(tenure.ScopeError, match="'idle' was never entered"):
            use()
    with pytest.raises(tenure.ScopeError, match="is still open"):
        s.remains  # noqa: B018
    assert s.tensors() == []
    assert s.nbytes == 0
    assert "not entered" in repr(s)


def test_the_remains_of_an_open_scope():
    with tenure.scope("open") as s, pytest.raises(tenure.ScopeError, match="is still open"):
        s.remains  # noqa: B018


@pytest.mark.parametrize(
    "cap", [-1, 0, True, False, "much", "", "-5", "1.2.3 MB", ".", "5 parsecs", 1.5, [], "0", "1e3"]
)
def test_a_cap_that_makes_no_sense(cap):
    with pytest.raises(tenure.ScopeError, match="a cap is a positive number of bytes"):
        tenure.scope(cap=cap)
    with pytest.raises(tenure.ScopeError):
        tenure.scope("named", cap=cap)


@pytest.mark.parametrize(
    ("cap", "nbytes"),
    [
        (1, 1),
        ("1", 1),
        ("512 MiB", 2**29),
        ("1.5kb", 1500),
        (" 2 GB ", 2 * 10**9),
        ("3B", 3),
        ("1 TiB", 2**40),
        (None, None),
    ],
)
def test_a_cap_as_text(cap, nbytes):
    assert tenure.scope(cap=cap).cap == nbytes


@pytest.mark.parametrize("name", [3, 1.5, b"x", ["x"], torch.ones(1)], ids=lambda name: type(name).__name__)
def test_a_name_that_is_no_text(name):
    with pytest.raises(tenure.Unsupported, match="takes a name .text. or a function"):
        tenure.scope(name)


@pytest.mark.parametrize("thing", [3, None, "x"])
def test_a_scope_decorates_functions_only(thing):
    with pytest.raises(tenure.Unsupported, match="decorates functions"):
        tenure.scope("s")(thing)


def test_a_cap_that_is_exceeded_names_the_largest():
    with pytest.raises(tenure.CapExceeded, match="its cap is 10 bytes"):
        with tenure.scope("small", cap="10 B"):
            x = torch.ones(100)
            y = torch.ones(1)
            z = torch.ones(1)


# ------------------------------------------------------------------------------------------------ odd torch tensors


def case(group, *, fates=("freed",), states=("live",)):
    """Register a maker of one odd tensor: what info may say of it, and what may become of it."""

    def register(make):
        for call in ("info", "remains", "dispose", "scope", "own", "holders"):
            CASES[group][f"{make.__name__} {call}"] = functools.partial(_try, make, call, fates, states)
        return make

    return register


def _try(make, call, fates, states):
    made = make()
    thing, checks = made if isinstance(made, tuple) else (made, None)
    if call == "info":
        found = tenure.info(thing)
        assert found.state in states, found
        assert found.label
    elif call == "remains":
        told = tenure.remains(thing)
        unsure = tuple(one.fate for one in told.held if one.reason)  # "cannot be told beforehand" is an honest answer
        _report(told, (*fates, *unsure))
        assert tenure.info(thing).state in states
    elif call == "dispose":
        told = tenure.dispose(thing)
        _report(told, fates)
        if tenure.info(thing).state == "disposed":
            assert "<released " in repr(thing)  # a key shows the array under it
        assert {one.fate for one in tenure.dispose(thing)} <= {"already", "cannot"}
        assert tenure.info(thing).shape is not None
    elif call == "scope":
        with tenure.scope() as s:
            born = make()
            born = born[0] if isinstance(born, tuple) else born
            tenure.adopt(born)
        assert str(s.remains)
        tenure.info(born)
    elif call == "own":
        if states == ("live",):
            owned = tenure.own(thing)
            tenure.dispose(owned)
            assert repr(owned).startswith("<released ")
        else:
            try:
                tenure.own(thing)
            except tenure.Unsupported as error:
                return str(error)
            raise AssertionError("own() took a tensor that is not live")
    elif call == "holders":
        tenure.holders(thing)
    if checks is not None:
        checks()
    return "fine"


def _report(told, fates):
    text = str(told)
    assert text
    assert {one.fate for one in told} <= set(fates), text
    for one in told.cannot:
        assert one.reason


@case("torch")
def sparse_coo():
    return torch.eye(3).to_sparse()


@case("torch")
def sparse_csr():
    return torch.eye(3).to_sparse_csr()


@case("torch")
def sparse_csc():
    return torch.eye(3).to_sparse_csc()


@case("torch")
def sparse_bsr():
    return torch.eye(4).to_sparse_bsr((2, 2))


@case("torch", fates=("freed", "held"))
def sparse_with_shared_parts():
    values = torch.ones(2)
    tensor = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), values, (3,))
    return tensor, lambda: _same(values, [1.0, 1.0])


@case("torch")
def sparse_empty():
    return torch.zeros(3, 3).to_sparse()


@case("torch", fates=("freed", "cannot", "held"))
def quantized():
    return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


@case("torch", fates=("cannot", "freed", "held"))
def nested_strided():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


@case("torch", fates=("cannot",))
def nested_jagged():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


@case("torch")
def inference():
    with torch.inference_mode():
        return torch.ones(3)


@case("torch", fates=("cannot",), states=("symbolic",))
def meta():
    return torch.ones(3, device="meta")


@case("torch", fates=("cannot",), states=("symbolic",))
def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


@case("torch", fates=("cannot", "freed", "held"))
def mkldnn():
    return torch.ones(3).to_mkldnn() if torch.backends.mkldnn.is_available() else torch.ones(3)


@case("torch")
def complex_numbers():
    return torch.ones(3, dtype=torch.complex64)


@case("torch", fates=("held",))
def conjugated_view():
    base = torch.full((2,), 1 + 2j)
    return base.conj(), lambda: _same(base, [1 + 2j, 1 + 2j])


@case("torch")
def zero_size():
    return torch.ones(0, 3)


@case("torch")
def zero_dimensional():
    return torch.ones(())


@case("torch")
def boolean():
    return torch.ones(3, dtype=torch.bool)


@case("torch")
def half():
    return torch.ones(3, dtype=torch.bfloat16)


@case("torch")
def eight_bits():
    return torch.ones(3).to(torch.float8_e4m3fn)


class Sub(torch.Tensor):
    pass


class Slotted(torch.Tensor):
    __slots__ = ("note",)


class WithAttributes(torch.Tensor):
    def __init__(self, *args):
        self.note = "mine"


class Wrapper(torch.Tensor):
    """A wrapper subclass, as DTensor is one."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return "Wrapper"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [arg.inner if isinstance(arg, Wrapper) else arg for arg in args]
        return func(*args, **(kwargs or {}))


class Hostile(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("I refuse everything")


@case("torch")
def subclass():
    return torch.ones(3).as_subclass(Sub)


@case("torch")
def subclass_with_attributes():
    return torch.ones(3).as_subclass(WithAttributes)


@case("torch", fates=("cannot",))
def subclass_with_slots():
    return torch.ones(3).as_subclass(Slotted)


@case("torch", fates=("cannot", "freed"))
def wrapper_subclass():
    return Wrapper(torch.ones(3))


@case("torch", fates=("cannot", "freed"))
def hostile_subclass():
    return torch.ones(3).as_subclass(Hostile)


@case("torch")
def parameter():
    return torch.nn.Parameter(torch.ones(3))


@case("torch")
def buffer_class():
    return torch.nn.Buffer(torch.ones(3))


@case("torch", fates=("cannot",), states=("symbolic",))
def uninitialized_parameter():
    return torch.nn.parameter.UninitializedParameter()


@case("torch", fates=("held",))
def of_a_parameter_list():
    parameters = torch.nn.ParameterList([torch.ones(2), torch.ones(2)])
    return parameters[0].data, lambda: _same(parameters[0].detach(), [1.0, 1.0])


@case("torch", fates=("held",))
def expanded():
    base = torch.ones(1)
    return base.expand(5), lambda: _same(base, [1.0])


@case("torch", fates=("freed", "held"))
def from_numpy():
    import numpy

    array = numpy.ones(3)
    return torch.from_numpy(array), lambda: _same(array, [1.0, 1.0, 1.0])


@case("torch", fates=("freed", "held"))
def from_buffer():
    memory = bytearray(12)
    return torch.frombuffer(memory, dtype=torch.float32), lambda: _same(list(memory), [0] * 12)


@case("torch", fates=("freed", "held"))
def from_file():
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(12))
        file.flush()
        return torch.from_file(file.name, size=3)


@case("torch", fates=("freed", "held"))
def shared_memory():
    return torch.ones(3).share_memory_()


@case("torch", fates=("freed", "held"))
def emptied_storage():
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    return x


@case("torch", fates=("held", "freed"))
def gradient():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad, lambda: _same(x.grad, [2.0, 2.0, 2.0])


def _same(value, expected):
    found = value if isinstance(value, list) else value.tolist()
    assert found == expected, found


def _inside(transform):
    def run():
        told = []

        def body(x):
            y = x * 2
            told.append((tenure.info(y).state, [one.fate for one in tenure.remains(y)], str(tenure.dispose(y))))
            try:
                tenure.own(y)
            except tenure.Unsupported:
                told.append("refused")
            with tenure.scope():
                z = tenure.keep(y + 1)
            return (y * z).sum()

        result = transform(body)
        assert told[0][0] == "symbolic", told
        assert told[0][1] == ["cannot"], told
        assert "cannot be released" in told[0][2]
        assert told[1] == "refused", told
        return result

    return run


CASES["torch"]["inside vmap"] = _inside(lambda body: torch.vmap(body)(torch.ones(2, 3)).tolist())
CASES["torch"]["inside vmap of vmap"] = _inside(lambda body: torch.vmap(torch.vmap(body))(torch.ones(2, 2, 3)).tolist())
CASES["torch"]["inside func.grad"] = _inside(lambda body: torch.func.grad(body)(torch.ones(3)).tolist())
CASES["torch"]["inside make_fx"] = _inside(
    lambda body: (
        __import__("torch.fx.experimental.proxy_tensor", fromlist=["x"])
        .make_fx(body, tracing_mode="fake")(torch.ones(3))
        .code
    )
)


def _escaped_from_vmap():
    leaked = []
    torch.vmap(lambda x: leaked.append(x * 2) or x)(torch.ones(2, 3))
    return tenure.info(leaked[0]).label, str(tenure.dispose(leaked[0])), repr(leaked[0])


def _scope_in_compiled():
    @tenure.scope
    def inner(x):
        return x * 2

    return torch.compile(lambda x: inner(x) + 1, backend="eager")(torch.ones(3)).tolist()


def _compiled_in_scope():
    f = torch.compile(lambda x: x * 2 + 1, backend="eager")
    with tenure.scope() as s:
        y = f(torch.ones(3))
        again = s.keep(f(torch.ones(3)))
    assert again.tolist() == [3.0, 3.0, 3.0]
    return f(torch.ones(3)).tolist()


def _dispose_in_a_hook():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: tenure.dispose(grad) and None)
    try:
        y.sum().backward()
    except tenure.TensorReleased:
        return "refused"
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    return "fine"


CASES["torch"]["escaped from vmap"] = _escaped_from_vmap
CASES["torch"]["scope in a compiled function"] = _scope_in_compiled
CASES["torch"]["compiled function in a scope"] = _compiled_in_scope
CASES["torch"]["dispose in a hook"] = _dispose_in_a_hook
PREPARE["torch"] = lambda: (torch.set_num_threads(1), tenure.dispose(torch.ones(1)))

# ------------------------------------------------------------------------------------------------ odd JAX arrays


@case("jax")
def jax_zero_dimensional():
    import jax.numpy as jnp

    return jnp.ones(()) + 0


@case("jax")
def jax_zero_size():
    import jax.numpy as jnp

    return jnp.ones((0, 3))


@case("jax")
def jax_boolean():
    import jax.numpy as jnp

    return jnp.ones(3, dtype=bool)


@case("jax")
def jax_complex():
    import jax.numpy as jnp

    return jnp.ones(3, dtype="complex64")


@case("jax")
def jax_bfloat():
    import jax.numpy as jnp

    return jnp.ones(3, dtype="bfloat16")


@case("jax")
def jax_key():
    import jax

    return jax.random.key(1)


@case("jax")
def jax_keys():
    import jax

    return jax.random.split(jax.random.key(1), 3)


@case("jax")
def jax_raw_key():
    import jax

    return jax.random.PRNGKey(1)


@case("jax", fates=("already",), states=("deleted",))
def jax_deleted():
    import jax.numpy as jnp

    x = jnp.ones(3) + 0
    x.delete()
    return x


@case("jax", fates=("already",), states=("donated", "deleted"))  # from 0.11 on JAX says the same of both
def jax_donated():
    import jax
    import jax.numpy as jnp

    x = jnp.ones(100) + 0
    jax.jit(lambda y: y + 1, donate_argnums=0)(x)
    return x


@case("jax", fates=("held", "freed"))
def jax_of_aligned_numpy():
    import jax
    import numpy

    memory = numpy.zeros(4096 + 64, dtype="uint8")
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + 4096]
    return jax.device_put(aligned), lambda: _same(aligned[:2], [0, 0])


@case("jax", fates=("cannot",), states=("out-of-scope", "symbolic"))
def jax_leaked_tracer():
    import jax
    import jax.numpy as jnp

    leaked = []
    jax.jit(lambda x: leaked.append(x * 2) or x)(jnp.ones(3))
    return leaked[0]


def _inside_jax(transform):
    def run():
        import jax
        import jax.numpy as jnp

        return _inside(lambda body: str(transform(jax, body)(jnp.ones((2, 3)))))()

    return run


CASES["jax"]["inside jit"] = _inside_jax(lambda jax, body: jax.jit(body))
CASES["jax"]["inside grad"] = _inside_jax(lambda jax, body: jax.grad(body))
CASES["jax"]["inside vmap"] = _inside_jax(lambda jax, body: jax.vmap(body))
CASES["jax"]["inside jit of grad of vmap"] = _inside_jax(
    lambda jax, body: jax.jit(jax.grad(lambda x: jax.vmap(body)(x).sum()))
)
CASES["jax"]["inside scan"] = _inside_jax(
    lambda jax, body: lambda xs: jax.lax.scan(lambda carry, x: (carry + body(x), x), 0.0, xs)
)


def _scope_in_jit_keeps_the_cache():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def f(x):
        with tenure.scope():
            table = jnp.arange(3.0)
            y = x * table
        return y

    return [f(jnp.ones(3)).tolist() for _ in range(2)]


def _jit_in_scope_keeps_the_cache():
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda x: x * jnp.arange(3.0))
    with tenure.scope() as s:
        first = s.keep(f(jnp.ones(3)))
        del s
    return first.tolist(), f(jnp.ones(3)).tolist()


def _scope_in_grad():
    import jax
    import jax.numpy as jnp

    def wave(x):
        return jnp.sin(x) * 2

    plain = jax.grad(lambda x: wave(x).sum())(jnp.ones(3))
    scoped = jax.grad(lambda x: tenure.scope(wave)(x).sum())(jnp.ones(3))
    assert plain.tolist() == scoped.tolist()
    return "fine"


def _scope_in_vmap():
    import jax
    import jax.numpy as jnp

    return jax.vmap(tenure.scope(lambda x: jnp.sin(x) * 2))(jnp.ones((2, 3))).tolist()


def _vjp_made_in_scope():
    import jax
    import jax.numpy as jnp

    @tenure.scope
    def make():
        return jax.vjp(jnp.sin, jnp.ones(3) + 0)

    value, back = make()
    return value.tolist(), back(jnp.ones(3))[0].tolist()


CASES["jax"]["scope in grad"] = _scope_in_grad
CASES["jax"]["scope in vmap"] = _scope_in_vmap
CASES["jax"]["vjp made in a scope"] = _vjp_made_in_scope
CASES["jax"]["scope in jit keeps the cache"] = _scope_in_jit_keeps_the_cache
CASES["jax"]["jit in scope keeps the cache"] = _jit_in_scope_keeps_the_cache
PREPARE["jax"] = lambda: __import__("jax")

# ------------------------------------------------------------------------------------------------ odd TensorFlow tensors


def _tf():
    import tensorflow as tf

    return tf


@case("tensorflow", fates=("cannot",))
def tf_string():
    return _tf().constant(["a", "bc"])


@case("tensorflow", fates=("cannot",))
def tf_zero_size():
    return _tf().zeros((0, 3))


@case("tensorflow", fates=("cannot",))
def tf_boolean():
    return _tf().constant([True])


@case("tensorflow", fates=("cannot",))
def tf_quantized():
    tf = _tf()
    return tf.quantization.quantize([1.0], 0.0, 2.0, tf.quint8).output


@case("tensorflow", fates=("cannot",))
def tf_variant():
    return _tf().data.Dataset.range(3)._variant_tensor


@case("tensorflow", fates=("cannot",))
def tf_resource():
    return _tf().Variable([1.0]).handle


@case("tensorflow")
def tf_variable():
    return _tf().Variable([1.0])


@case("tensorflow", fates=("freed", "held"))
def tf_string_variable():
    return _tf().Variable(["a"])


@case("tensorflow", fates=("freed", "held"))
def tf_variable_of_any_shape():
    tf = _tf()
    return tf.Variable([1.0], shape=tf.TensorShape(None))


@case("tensorflow", fates=("cannot",), states=("symbolic",))
def tf_graph_variable():
    tf = _tf()
    with tf.Graph().as_default():
        return tf.compat.v1.get_variable("v", initializer=[1.0], use_resource=True)


@case("tensorflow", fates=("cannot",), states=("symbolic", "out-of-scope"))
def tf_placeholder():
    tf = _tf()
    with tf.Graph().as_default():
        return tf.compat.v1.placeholder("float32", (None, 3))


@case("tensorflow", fates=("cannot",), states=("symbolic", "out-of-scope"))
def tf_unknown_rank():
    tf = _tf()
    with tf.Graph().as_default():
        return tf.compat.v1.placeholder("float32")


@case("tensorflow", fates=("cannot",), states=("out-of-scope",))
def tf_leaked_from_function():
    tf = _tf()
    leaked = []
    tf.function(lambda x: leaked.append(x * 2) or x)(tf.ones(3))
    return leaked[0]


@case("tensorflow", fates=("cannot",), states=("symbolic",))
def keras_tensor():
    return _tf().keras.Input((3,))


def _composite(make):
    def run():
        tf = _tf()
        value = make(tf)
        told = tenure.dispose(value)
        assert len(told) >= 2, str(told)
        assert {one.fate for one in told} == {"cannot"}
        with tenure.scope():
            inside = tenure.keep(make(tf))
        repr(inside)
        try:
            tenure.info(value)
        except tenure.Unsupported:
            return "fine"
        raise AssertionError("info() took a composite")

    return run


CASES["tensorflow"]["ragged"] = _composite(lambda tf: tf.ragged.constant([[1.0], [2.0, 3.0]]))
CASES["tensorflow"]["sparse"] = _composite(lambda tf: tf.sparse.from_dense([[1.0, 0.0], [0.0, 2.0]]))
CASES["tensorflow"]["indexed slices"] = _composite(lambda tf: tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0])))


def _inside_function():
    tf = _tf()
    told = []

    def body(x):
        y = x * 2
        told.append((tenure.info(y).state, [one.fate for one in tenure.remains(y)], str(tenure.dispose(y))))
        try:
            tenure.own(y)
        except tenure.Unsupported:
            told.append("refused")
        with tenure.scope():
            z = tenure.keep(y + 1)
        return y * z

    result = tf.function(body)(tf.ones(3))
    assert told[0][:2] == ("symbolic", ["cannot"]), told
    assert "cannot be released" in told[0][2]
    assert told[1] == "refused", told
    return result


def _scope_in_function():
    tf = _tf()

    @tf.function
    def f(x):
        with tenure.scope():
            return x * 2

    return [f(tf.ones(3)).numpy().tolist() for _ in range(2)]


def _function_in_scope():
    tf = _tf()
    f = tf.function(lambda x: x * tf.constant([1.0, 2.0, 3.0]))
    with tenure.scope() as s:
        first = s.keep(f(tf.ones(3)))
    return first.numpy().tolist(), f(tf.ones(3)).numpy().tolist()


def _keras_model_in_scope():
    tf = _tf()
    with tenure.scope():
        inputs = tf.keras.Input((3,))
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))
        model.compile("sgd", "mse")
        model.train_on_batch(tf.ones((2, 3)), tf.ones((2, 1)))
    return model(tf.ones((1, 3))).shape.as_list()


def _keras_variable():
    tf = _tf()
    layer = tf.keras.layers.Dense(1)
    layer.build((None, 3))
    told = tenure.dispose(layer)
    return [one.fate for one in told], repr(layer), str(told)


def _sliced_variable():
    tf = _tf()
    v = tf.Variable([1.0, 2.0])
    kept = v[0]
    tenure.dispose(v)
    assert kept.numpy() == 1.0
    return "fine"


CASES["tensorflow"]["inside function"] = _inside_function
CASES["tensorflow"]["scope in function"] = _scope_in_function
CASES["tensorflow"]["function in scope"] = _function_in_scope
CASES["tensorflow"]["keras model in scope"] = _keras_model_in_scope
CASES["tensorflow"]["keras variable"] = _keras_variable
CASES["tensorflow"]["sliced variable"] = _sliced_variable
PREPARE["tensorflow"] = lambda: __import__("tensorflow")

# ------------------------------------------------------------------------------------------------ odd NumPy arrays


def _np():
    import numpy

    return numpy


@case("numpy", fates=("cannot",))
def np_objects():
    return _np().array([object(), None, "x"], dtype=object)


@case("numpy", fates=("cannot", "held"))  # the array refers to the tensor, as native code does
def np_objects_with_tensors():
    array = _np().empty(2, dtype=object)
    array[0] = torch.ones(2)
    return array


@case("numpy", fates=("cannot",))
def np_memmap():
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(12))
        file.flush()
        return _np().memmap(file.name, dtype="float32", mode="r")


@case("numpy", fates=("cannot",))
def np_readonly():
    array = _np().ones(3)
    array.flags.writeable = False
    return array


@case("numpy", fates=("cannot",))
def np_structured():
    return _np().zeros(3, dtype=[("a", "f4"), ("b", "i8")])


@case("numpy", fates=("cannot",))
def np_record():
    return _np().rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])


@case("numpy", fates=("cannot",))
def np_masked():
    return _np().ma.array([1, 2], mask=[True, False])


@case("numpy", fates=("cannot",))
def np_matrix():
    return _np().asmatrix(_np().ones((2, 2)))


@case("numpy", fates=("cannot",))
def np_text():
    return _np().array(["a", "bc"])


@case("numpy", fates=("cannot",))
def np_dates():
    return _np().array(["2020-01-01"], dtype="datetime64[D]")


@case("numpy", fates=("cannot",))
def np_new_strings():
    return _np().array(["a"], dtype=_np().dtypes.StringDType())


@case("numpy", fates=("cannot",))
def np_zero_dimensional():
    return _np().array(1.0)


@case("numpy", fates=("cannot",))
def np_zero_size():
    return _np().ones((0, 3))


@case("numpy", fates=("cannot",))
def np_reversed():
    return _np().arange(5)[::-2]


@case("numpy", fates=("cannot",))
def np_broadcast():
    return _np().broadcast_to(1.0, (3, 3))


@case("numpy", fates=("cannot",))
def np_of_bytes():
    return _np().frombuffer(b"12345678", dtype="int64")


@case("numpy", fates=("cannot",))
def np_of_torch():
    return torch.ones(3).numpy()


def _scalar():
    for call in (tenure.dispose, tenure.info, tenure.own):
        try:
            call(_np().float32(1.0))
        except tenure.Unsupported:
            continue
        assert call is tenure.dispose
    return "fine"


CASES["numpy"]["scalar"] = _scalar


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, cases in CASES.items() for name in cases])
def test_odd_input_gets_a_clear_answer(outcomes, request, group, name):
    request.getfixturevalue({"tensorflow": "tf", "numpy": "np"}.get(group, group))
    outcome = outcomes(__file__, group)[name]
    assert outcome["kind"] == "value", f"{outcome.get('type')}: {outcome['text']} at {outcome.get('at')}"
