import contextlib
import os

import jax
import jax.numpy as jnp

_active = []


@contextlib.contextmanager
def capture():
    """Collect what the layers report while the block runs."""
    taps = {}
    _active.append(taps)
    try:
        yield taps
    finally:
        _active.remove(taps)


def tap(name, value):
    for taps in _active:
        taps[name] = value
    return value


class Dense:
    def __init__(self, name, key, inputs, outputs):
        self.name = name
        self.w = jax.random.normal(key, (inputs, outputs)) / inputs**0.5
        self.b = jnp.zeros(outputs)

    def __call__(self, x):
        return tap(self.name, jnp.tanh(x @ self.w + self.b))


class MLP:
    def __init__(self, key, sizes):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = [Dense(f"dense_{i}", k, n, m) for i, (k, n, m) in enumerate(zip(keys, sizes, sizes[1:]))]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def saturation_report(model, inputs, threshold=0.95):
    """Return the share of saturated units of each layer, for inputs that come one sample at a time."""

    def run(x):
        with capture() as taps:
            return model(x), dict(taps)

    outputs, taps = jax.vmap(run)(inputs)
    shares = {name: float(jnp.mean(jnp.abs(value) > threshold)) for name, value in taps.items()}
    return outputs, shares


def main():
    model = MLP(jax.random.key(0), (10, 64, 64, 4))
    worst = 0.0
    for step in range(int(os.environ.get("STEPS", "40"))):
        inputs = (1 + 0.1 * step) * jax.random.normal(jax.random.key(step), (32, 10))
        outputs, shares = saturation_report(model, inputs)
        worst = max(worst, max(shares.values()))
    print("output", outputs.shape, "largest share of saturated units", round(worst, 3))


if __name__ == "__main__":
    main()
