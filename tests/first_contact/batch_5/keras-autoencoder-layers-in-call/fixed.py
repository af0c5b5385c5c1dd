import os

import numpy as np
import tensorflow as tf


class Autoencoder(tf.keras.Model):
    def __init__(self, code_size, features):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(32, activation="elu")
        self.encoder = tf.keras.layers.Dense(code_size)
        self.decoder = tf.keras.layers.Dense(features, activation="sigmoid")

    def call(self, inputs):
        code = self.encoder(self.hidden(inputs))
        return self.decoder(code)


def make_train_step(model, optimizer):
    @tf.function
    def train_step(batch):
        with tf.GradientTape() as tape:
            reconstruction = model(batch)
            loss = tf.reduce_mean(tf.keras.losses.binary_crossentropy(batch, reconstruction))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return train_step


tf.keras.utils.set_random_seed(1)
digits = (np.random.uniform(size=(256, 20)) < np.linspace(0.1, 0.9, 20)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(digits).shuffle(256, seed=1).repeat().batch(32)
train_step = make_train_step(Autoencoder(code_size=4, features=20), tf.keras.optimizers.Adam(1e-2))
for batch in dataset.take(int(os.environ.get("STEPS", "40"))):
    loss = train_step(batch)
print("reconstruction loss", round(float(loss), 4))
