import os

import keras
import numpy as np
import tensorflow as tf


def build_classifier():
    inputs = keras.Input((24, 24, 1))
    x = keras.layers.Conv2D(6, 3, activation="relu", padding="same")(inputs)
    x = keras.layers.Conv2D(12, 3, activation="relu", padding="same", name="last_conv")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(3)(x))


@tf.function
def get_gradients_and_filters(grad_model, images, class_index):
    with tf.GradientTape() as tape:
        filters, scores = grad_model(images)
        loss = tf.reduce_sum(scores[:, class_index])
    return filters, tape.gradient(loss, filters)


def heatmap(grad_model, frame, class_index):
    filters, gradients = get_gradients_and_filters(grad_model, frame[None], class_index)
    weights = tf.reduce_mean(gradients, axis=(1, 2), keepdims=True)
    return tf.nn.relu(tf.reduce_sum(weights * filters, axis=-1))[0].numpy()


def synthetic_video(frames):
    grid = np.stack(np.meshgrid(np.arange(24), np.arange(24)), axis=-1)
    for n in range(frames):
        centre = 12 + 8 * np.array([np.cos(n / 6), np.sin(n / 6)])
        yield tf.constant(np.exp(-((grid - centre) ** 2).sum(-1, keepdims=True) / 8), tf.float32)


def main():
    keras.utils.set_random_seed(0)
    model = build_classifier()
    grad_model = keras.Model(model.inputs, [model.get_layer("last_conv").output, model.output])
    focus = []
    for frame in synthetic_video(int(os.environ.get("STEPS", "40"))):
        heat = heatmap(grad_model, frame, class_index=0)
        focus.append(np.unravel_index(heat.argmax(), heat.shape))
    print("focus moves by", np.abs(np.diff(np.array(focus), axis=0)).mean().round(2), "pixels per frame")


if __name__ == "__main__":
    main()
