import os

import keras
import plots
import numpy as np
from keras import layers, ops


class BahdanauPooling(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.project = layers.Dense(units, activation="tanh")
        self.score = layers.Dense(1, use_bias=False)

    def call(self, states):
        self.attention_weights = ops.softmax(self.score(self.project(states)), axis=1)
        return ops.sum(self.attention_weights * states, axis=1)


def build_model(vocab, length):
    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(vocab, 16)(tokens)
    x = layers.GRU(16, return_sequences=True)(x)
    x = BahdanauPooling(16, name="attention")(x)
    return keras.Model(tokens, layers.Dense(1, activation="sigmoid")(x))


def reviews(n, length=12, vocab=60, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, vocab, size=(n, length))
    return tokens, (tokens == 7).any(axis=1).astype("float32")


def main():
    keras.utils.set_random_seed(11)
    steps = int(os.environ.get("STEPS", "40"))
    tokens, labels = reviews(8 * steps)
    model = build_model(vocab=60, length=12)
    model.compile("adam", "binary_crossentropy")
    history = model.fit(tokens, labels, batch_size=8, epochs=1, verbose=0)
    print("loss", history.history["loss"][-1])

    last_batch = tokens[-8:]
    weights = model.get_layer("attention").attention_weights
    print(plots.heatmap(last_batch, weights.numpy()[..., 0]))


main()
