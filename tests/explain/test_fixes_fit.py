"""The fix of an explanation can be followed where the program stands: names that are known, sessions that are open."""

import pytest
from programs import failed, from_text

import tenure
from tenure.explain import driver
from tenure.explain.text import parse

GAN = """
import torch
from torch import nn
G, D = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for i in range(10):
    fake = G(torch.randn(3, 4))
    judged = D(fake)
    if i % 5 == 0:
        judged.mean().backward(retain_graph=True)
        og.step()
    (judged ** 2).mean().backward()
    od.step()
"""
NOTEBOOK = """
---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
Cell In[4], line 3
      1 new_params = update(params, grads)
      2 # compare with the old ones
----> 3 delta = new_params["w"] - params["w"]

RuntimeError: Array has been deleted with shape=float32[3].
"""


def test_a_notebooks_donation_is_no_delete():
    (raised,) = parse(NOTEBOOK)
    finding = driver.find(raised)
    assert finding is not None and (finding.code, finding.certain) == ("TN207", False)


def test_an_optimizers_step_between_forward_and_backward(tmp_path):
    pytest.importorskip("torch")
    error, said = failed(GAN, tmp_path / "gan.py")
    finding = tenure.explain(error)
    assert finding is not None and finding.code == "TN209"
    assert "`og.step()` after this backward()" in finding.fix.message
    assert "earlier step" not in finding.reason


def test_what_shares_the_graph_is_named_on_one_line(tmp_path):
    pytest.importorskip("torch")
    text = (
        "import torch\nw = torch.ones(3, requires_grad=True)\nfeatures = torch.exp(w)\n"
        "first, second = features.sum(), (features ** 2).sum()\nfirst.backward(); second.backward()\n"
    )
    error, _ = failed(text, tmp_path / "two.py")
    assert "`features`" in tenure.explain(error).message


TWO_PASSES = """
import torch
G, D = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
class Trainer:
    def critic(self, fake):
        loss = D(fake).square().mean()
        loss.backward()
    def generator(self, fake):
        loss = D(fake).mean()
        loss.backward()
    def fit(self):
        for step in range(20):
            fake = G(torch.randn(3, 4))
            self.critic(fake)
            self.generator(fake)
Trainer().fit()
"""


def test_two_passes_in_one_iteration_are_not_told_to_compute_it_again_in_each(tmp_path):
    pytest.importorskip("torch")
    error, _ = failed(TWO_PASSES, tmp_path / "two.py")
    finding = tenure.explain(error)
    assert finding is not None and finding.code == "TN208"
    assert "iteration" not in finding.fix.message
    assert "detach the shared value" in finding.fix.message and "backward() once" in finding.fix.message


DONATED_LAYERS = """
import jax
import jax.numpy as jnp
step = jax.jit(lambda params: jax.tree.map(lambda part: part * 0.9, params), donate_argnums=0)
def predict(layer, x):
    return x @ layer["w"] + layer["b"]
def main():
    params = {"b": jnp.zeros(4), "w": jnp.ones((3, 4))}
    best = params
    params = step(params)
    return predict(best, jnp.ones((2, 3)))
main()
"""
DONATED_ARRAY = """
import jax
import jax.numpy as jnp
step = jax.jit(lambda weights: weights * 0.9, donate_argnums=0)
weights = jnp.ones(3)
best = weights
weights = step(weights)
print(weights - best)
"""


@pytest.mark.parametrize(
    ("text", "name", "copy"),
    [(DONATED_LAYERS, "layer['w']", "(`jax.tree.map(jnp.copy, x)`)"), (DONATED_ARRAY, "best", "(`jnp.copy(x)`)")],
)
def test_a_donated_array_is_the_one_of_the_messages_shape_and_is_copied_as_what_it_is(text, name, copy, tmp_path):
    pytest.importorskip("jax")
    error, _ = failed(text, tmp_path / "donated.py")
    finding = tenure.explain(error)
    assert finding is not None and finding.code == "TN207"
    assert f"`{name}`" in finding.message
    assert copy in finding.fix.message


SESSIONS = {
    "the block has closed it": (
        """
import tensorflow as tf
v1 = tf.compat.v1
with tf.Graph().as_default():
    y = tf.constant(3.0) * 2
    with v1.Session() as sess:
        sess.run(y)
    y.eval()
""",
        "move this line into the `with` block",
    ),
    "another function's session": (
        """
import tensorflow as tf
v1 = tf.compat.v1
def read(y):
    return y.eval()
def main():
    with tf.Graph().as_default():
        y = tf.constant(3.0) * 2
        sess = v1.Session()
        sess.run(y)
        read(y)
main()
""",
        "pass an open session",
    ),
    "an open one": (
        """
import tensorflow as tf
v1 = tf.compat.v1
with tf.Graph().as_default():
    y = tf.constant(3.0) * 2
    sess = v1.Session()
    y.eval()
""",
        "`eval(session=sess)`",
    ),
    "the trained one": (
        """
import tensorflow as tf
v1 = tf.compat.v1
with tf.Graph().as_default():
    w = v1.get_variable("w", initializer=[1.0, 2.0])
    train = v1.Session()
    train.run(v1.global_variables_initializer())
    with v1.Session() as sess:
        sess.run(w)
""",
        "run it in `train`",
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_is_proposed_only_where_it_is_open(name, tmp_path):
    pytest.importorskip("tensorflow")
    import traceback

    source, fix = SESSIONS[name]
    error, said = failed(source, tmp_path / "program.py")
    shown = said + "".join(traceback.format_exception(error))
    for finding in (tenure.explain(error), from_text(shown)):
        assert finding is not None and fix in finding.fix.message, finding


def test_a_local_of_another_function_is_not_where_it_was_made(tmp_path):
    pytest.importorskip("tensorflow")
    text = """
import tensorflow as tf
v1 = tf.compat.v1
def other():
    with tf.Graph().as_default():
        loss = tf.constant(1.0) * 2
def build():
    with tf.Graph().as_default():
        return tf.constant(2.0) + 1
def run():
    loss = build()
    with v1.Session(graph=tf.Graph()) as sess:
        return sess.run(loss)
other()
run()
"""
    error, _ = failed(text, tmp_path / "program.py")
    lines = {place.line for place in tenure.explain(error).places}
    assert 6 not in lines and 11 in lines
