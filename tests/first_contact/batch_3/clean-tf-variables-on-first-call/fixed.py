import os

import tensorflow as tf


class LazyDense(tf.Module):
    def __init__(self, units):
        super().__init__()
        self.units = units
        self.kernel = None
        self.bias = None

    def __call__(self, x):
        if self.kernel is None:
            self.kernel = tf.Variable(tf.random.normal([x.shape[-1], self.units], stddev=0.2, seed=1), name="kernel")
            self.bias = tf.Variable(tf.zeros([self.units]), name="bias")
        return x @ self.kernel + self.bias


class Learner(tf.Module):
    def __init__(self, learning_rate):
        super().__init__()
        self.hidden = LazyDense(32)
        self.out = LazyDense(1)
        self.learning_rate = learning_rate
        self.updates = None

    def predict(self, x):
        return self.out(tf.nn.relu(self.hidden(x)))

    @tf.function
    def step(self, x, y):
        if self.updates is None:
            self.updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.predict(x) - y))
        variables = self.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(self.learning_rate * gradient)
        self.updates.assign_add(1)
        return loss


def main():
    tf.random.set_seed(0)
    learner = Learner(0.05)
    losses = []
    for _ in range(int(os.environ.get("STEPS", "40"))):
        x = tf.random.normal([64, 5])
        losses.append(float(learner.step(x, tf.reduce_sum(tf.abs(x), axis=1, keepdims=True))))
    print("updates", int(learner.updates), "first", losses[0], "last", losses[-1])


if __name__ == "__main__":
    main()
