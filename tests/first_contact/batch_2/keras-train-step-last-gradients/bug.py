import os

import keras
import numpy as np
import tensorflow as tf


class GradientLoggingModel(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.last_gradient_norm = tf.linalg.global_norm(gradients)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


class GradientNorms(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.norms = []

    def on_train_batch_end(self, batch, logs=None):
        self.norms.append(float(self.model.last_gradient_norm))

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch} gradient norm {np.mean(self.norms):.3f}")


def main():
    keras.utils.set_random_seed(4)
    inputs = keras.Input((12,))
    hidden = keras.layers.Dense(16, activation="selu")(inputs)
    model = GradientLoggingModel(inputs, keras.layers.Dense(2)(hidden))
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    samples = 4 * int(os.environ.get("STEPS", "40"))
    x = np.random.normal(size=(samples, 12)).astype("float32")
    model.fit(x, x[:, :2], batch_size=4, epochs=1, verbose=0, callbacks=[GradientNorms()])


if __name__ == "__main__":
    main()
