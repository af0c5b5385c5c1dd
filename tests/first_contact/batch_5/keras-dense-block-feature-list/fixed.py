import os

import keras
import numpy as np


class BottleNeck(keras.layers.Layer):
    def __init__(self, growth_rate, drop_rate=0.0):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()
        self.conv = keras.layers.Conv1D(growth_rate, 3, padding="same", activation="relu")
        self.dropout = keras.layers.Dropout(drop_rate)

    def call(self, inputs, training=None):
        return self.dropout(self.conv(self.norm(inputs, training=training)), training=training)


class DenseBlock(keras.layers.Layer):
    def __init__(self, num_layers, growth_rate, drop_rate=0.0):
        super().__init__()
        self.bottlenecks = [BottleNeck(growth_rate, drop_rate) for _ in range(num_layers)]

    def call(self, inputs, training=None):
        features = [inputs]
        x = inputs
        for bottleneck in self.bottlenecks:
            x = bottleneck(x, training=training)
            features.append(x)
            x = keras.ops.concatenate(features, axis=-1)
        return x


class SignalNet(keras.Model):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = keras.layers.Conv1D(8, 5, padding="same")
        self.block = DenseBlock(num_layers=3, growth_rate=4)
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.head = keras.layers.Dense(classes)

    def call(self, inputs, training=None):
        x = self.stem(inputs)
        x = self.block(x, training=training)
        return self.head(self.pool(x))


def main():
    keras.utils.set_random_seed(0)
    n = 8 * int(os.environ.get("STEPS", "40"))
    x = np.random.normal(size=(n, 32, 2)).astype("float32")
    y = (x[:, :, 0].mean(1) > 0).astype("int32") + (x[:, :, 1].mean(1) > 0)
    model = SignalNet()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(x, y, batch_size=8, epochs=1, verbose=0)
    print("accuracy", model.evaluate(x, y, verbose=0)[1])


if __name__ == "__main__":
    main()
