"""Sensitivity of a surrogate model's outputs to its design parameters."""
import argparse
import os

import tensorflow as tf


def build_surrogate(inputs=5, outputs=3):
    return tf.keras.Sequential([
        tf.keras.layers.Input((inputs,)),
        tf.keras.layers.Dense(32, activation="tanh"),
        tf.keras.layers.Dense(outputs),
    ])


def fit(model, steps):
    optimizer = tf.keras.optimizers.SGD(0.05)
    for _ in range(steps):
        x = tf.random.uniform((64, 5))
        y = tf.stack([tf.reduce_sum(x, 1), tf.reduce_prod(x, 1), tf.reduce_max(x, 1)], 1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def sensitivities(model, design):
    design = tf.convert_to_tensor(design)
    with tf.GradientTape() as tape:
        tape.watch(design)
        outputs = tf.unstack(model(design), axis=1)
    rows = [tape.gradient(output, design) for output in outputs]
    return tf.stack(rows, axis=1)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 40)))
    args = parser.parse_args(argv)
    tf.keras.utils.set_random_seed(1)
    model = build_surrogate()
    loss = fit(model, args.steps)
    table = sensitivities(model, tf.fill((2, 5), 0.5))
    print("fit", round(float(loss), 3))
    print(table.numpy().round(2))


main()
