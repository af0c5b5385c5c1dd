"""TensorFlow's part of the other random programs."""

import numpy as np
import tensorflow as tf
from other_worlds import World

import tenure


@tf.custom_gradient
def gated(x, y):
    kept = x * 2

    def back(grad):
        return grad * y + 0 * kept, grad * x

    return x * y, back


@tf.function(reduce_retracing=True)
def compiled(x, y):
    return tf.tanh(x @ y) + x


class Tensorflow(World):
    kinds = (
        "fresh_one operate operate traced graded twice custom recomputed variable assigned exported sliced closure call "
        "drop look taped taped mapped "
        "owned owned scratch scratch broken"
    ).split()

    def __init__(self, seed, scoped):
        super().__init__(seed, scoped)
        self.weight = tf.Variable(self.fresh())

    def array(self, value):
        return np.asarray(value)

    def fresh(self):
        self.tick()
        return tf.constant(np.random.default_rng(self.rng.randrange(1 << 30)).random((4, 4), dtype=np.float32))

    def fresh_one(self):
        return [self.fresh()]

    def some(self):
        value = tf.convert_to_tensor(self.rng.choice([self.weight, self.pick(), self.pick()]))
        return value if value.shape == (4, 4) else tf.broadcast_to(tf.reshape(value, [-1])[:1], (4, 4))

    def operate(self):
        return [
            self.leave(self.rng.choice([tf.add, tf.multiply, tf.matmul, tf.maximum])(self.some(), self.some())) * 0.25
        ]

    def traced(self):
        return [compiled(self.leave(self.some() + 1), self.some())]

    def graded(self):
        x = self.some()
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(compiled(x, self.weight))
        return list(tape.gradient(loss, [x, self.weight]))

    def twice(self):
        x = self.some()
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(tf.sin(x) ** 2)
            grad = inner.gradient(loss, x)
        return [outer.gradient(grad, x)]

    def custom(self):
        x, y = self.leave(self.some() + 0), self.some() + 0
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(gated(x, y))
        return tape.gradient(loss, [x, y])

    def recomputed(self):
        factor, x = self.fresh(), self.some()
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.recompute_grad(lambda a: tf.sin(a * factor))(x))
        return [tape.gradient(loss, x)]

    def taped(self):
        x = self.leave(self.some() + 1)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = tf.reduce_sum(x * x * self.weight)
        return [loss, lambda: [tape.gradient(loss, x)]]

    def variable(self):
        return [tf.Variable(self.some())]

    def assigned(self):
        for value in self.values:
            if isinstance(value, tf.Variable):
                value.assign_add(self.fresh())
                break
        self.weight.assign(self.fresh())

    def exported(self):
        return [self.leave(self.some() + 1).numpy()]

    def sliced(self):
        x = self.some()
        return [x[self.rng.randrange(4)], tf.transpose(x), *tf.unstack(x)][: self.rng.randrange(1, 5)]

    def closure(self):
        inside = {"a": [self.fresh()]}
        return [lambda: [inside["a"][0] * 2]]

    def mapped(self):
        return [tf.vectorized_map(lambda row: row * 2, self.some())]

    def owned(self):
        x = self.leave(self.hold(self.some() * 2))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(y := x + self.weight)
            loss = tf.reduce_sum(y * x)
        return [x * x, lambda: [tape.gradient(loss, y)]]

    def scratch(self):
        """A variable for this step alone."""
        variable = self.leave(tf.Variable(self.some()))
        if self.in_scope:
            tenure.adopt(variable)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(compiled(variable, self.weight) * variable)
        gradient = tape.gradient(loss, variable)
        variable.assign_sub(gradient)
        return [gradient, variable + 0]

    def broken(self):
        return [self.leave(self.some() + 1) @ tf.ones((3, 3))]


WORLD = Tensorflow
