"""Eager steps with a tape, and a compiled function."""

import time

import tensorflow as tf

weights = tf.Variable(tf.ones((4, 2)))


@tf.function
def loss(batch):
    return tf.reduce_mean((batch @ weights) ** 2)


kept = []
for step in range(8):
    with tf.GradientTape() as tape:
        value = loss(tf.fill((3, 4), float(step)))
    weights.assign_sub(0.01 * tape.gradient(value, weights))
    kept.append(value)
    if step == 3:
        time.sleep(0.25)
print(float(tf.reduce_sum(weights)), [round(float(value), 3) for value in kept])
