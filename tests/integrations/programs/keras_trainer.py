"""A small real training with Keras, without and with the callback. Prints one JSON object: what came of it."""

import json
import sys
from pathlib import Path

import keras
import numpy
import tensorflow as tf

from tenure.integrations.keras import TenureCallback

FOLDER = Path(sys.argv[1])


def train(callbacks):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    made = numpy.random.default_rng(0)
    x, y = made.normal(size=(64, 8)).astype("float32"), made.normal(size=(64, 1)).astype("float32")
    history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=callbacks)
    return [weight.tobytes().hex() for weight in model.get_weights()], history.history


def main():
    before, _ = train([])
    callback = TenureCallback(FOLDER / "keras", quiet=True)
    board = keras.callbacks.TensorBoard(str(FOLDER / "board"), write_graph=False)
    after, history = train([callback, board])
    told = {
        "same": before == after,
        "history": {name: [float(value) for value in values] for name, values in history.items()},
        "codes": [finding.code for finding in callback.findings],
        "steps": callback.trace.steps().num_rows,
    }
    # And TensorBoard's writer of TensorFlow.
    import tenure
    from tenure.integrations.tensorboard import log

    writer = tf.summary.create_file_writer(str(FOLDER / "summary"))
    log(callback.trace, writer)
    log(tenure.memory(), writer, 5)
    with writer.as_default():
        log(tenure.memory(), tf.summary, 6)
    writer.close()
    print(json.dumps(told))


main()
