"""A Keras model trained by fit; prints a digest of losses and weights."""

import hashlib
import sys

import keras
import numpy as np

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Dense(32, activation="gelu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
x = np.random.default_rng(0).normal(size=(8 * int(sys.argv[1]), 16)).astype("float32")
history = model.fit(x, x.sum(axis=1), batch_size=8, epochs=1, verbose=0, shuffle=True)
digest = hashlib.sha256(repr(history.history).encode())
for weight in model.get_weights():
    digest.update(weight.tobytes())
print(digest.hexdigest())
