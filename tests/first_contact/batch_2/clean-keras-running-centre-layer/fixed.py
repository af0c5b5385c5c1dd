import os

import keras
import numpy as np
from keras import ops


class RunningCentre(keras.layers.Layer):
    def __init__(self, momentum=0.9, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum

    def build(self, input_shape):
        self.centre = self.add_weight(shape=(input_shape[-1],), initializer="zeros", trainable=False, name="centre")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, inputs, training=False):
        if training:
            mean = ops.mean(ops.stop_gradient(inputs), axis=0)
            self.centre.assign(self.momentum * self.centre + (1 - self.momentum) * mean)
            self.calls.assign_add(1.0)
        return inputs - self.centre


class PredictionSpread(keras.callbacks.Callback):
    def __init__(self, probe):
        super().__init__()
        self.probe = probe
        self.spreads = []
        self.last_prediction = None

    def on_train_batch_end(self, batch, logs=None):
        self.last_prediction = self.model(self.probe, training=False)
        self.spreads.append(float(ops.std(self.last_prediction)))


def main():
    keras.utils.set_random_seed(6)
    steps = int(os.environ.get("STEPS", "40"))
    model = keras.Sequential([
        keras.Input((10,)),
        keras.layers.Dense(16, activation="relu"),
        RunningCentre(name="running_centre"),
        keras.layers.Dense(1),
    ])
    model.compile(optimizer="adam", loss="mse")
    x = np.random.normal(size=(4 * steps, 10)).astype("float32")
    spread = PredictionSpread(x[:4])
    model.fit(x, x.sum(1, keepdims=True), batch_size=4, verbose=0, callbacks=[spread])
    layer = model.get_layer("running_centre")
    print("batches", int(layer.calls.numpy()), "spreads", len(spread.spreads), spread.spreads[-1] > 0)


if __name__ == "__main__":
    main()
