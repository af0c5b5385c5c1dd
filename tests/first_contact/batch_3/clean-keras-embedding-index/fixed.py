import os

import keras
import numpy as np
from keras import layers, ops


class L2Normalise(layers.Layer):
    def call(self, inputs):
        return inputs / ops.sqrt(ops.sum(ops.square(inputs), axis=-1, keepdims=True) + 1e-6)


def build_encoder(dim=16):
    image = keras.Input((12, 12, 1))
    x = layers.Conv2D(8, 3, strides=2, activation="relu")(image)
    x = layers.Flatten()(x)
    return keras.Model(image, L2Normalise()(layers.Dense(dim)(x)), name="encoder")


class GalleryIndex:
    def __init__(self, encoder):
        self.encoder = encoder
        self.chunks = []
        self.labels = []

    def add(self, images, labels):
        self.chunks.append(np.asarray(self.encoder.predict_on_batch(images)))
        self.labels.extend(labels.tolist())

    def finish(self):
        self.matrix = np.concatenate(self.chunks)
        self.chunks.clear()
        return self

    def search(self, images):
        queries = self.encoder.predict_on_batch(images)
        nearest = (queries @ self.matrix.T).argmax(axis=1)
        return np.array([self.labels[i] for i in nearest])


def sample(rng, shapes, n):
    labels = rng.integers(0, len(shapes), n)
    return shapes[labels] + 0.2 * rng.normal(size=(n, 12, 12, 1)).astype("float32"), labels


def main():
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(3)
    shapes = (rng.random((6, 12, 12, 1)) > 0.6).astype("float32")
    index = GalleryIndex(build_encoder())
    for _ in range(int(os.environ.get("STEPS", "40"))):
        index.add(*sample(rng, shapes, 8))
    index.finish()
    images, labels = sample(rng, shapes, 50)
    print("gallery", index.matrix.shape, "recall@1", (index.search(images) == labels).mean())


main()
