import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

LATENT = 2


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed = keras.random.SeedGenerator(1)

    def call(self, inputs):
        z_mean, z_log_var = inputs
        self.add_loss(-0.5 * keras.ops.mean(1 + z_log_var - z_mean**2 - keras.ops.exp(z_log_var)))
        eps = keras.random.normal(keras.ops.shape(z_mean), seed=self.seed)
        return z_mean + keras.ops.exp(0.5 * z_log_var) * eps


def build_vae(n_features):
    x = keras.Input((n_features,), name="x")
    h = layers.Dense(16, activation="relu")(x)
    z_mean = layers.Dense(LATENT, name="z_mean")(h)
    z_log_var = layers.Dense(LATENT, name="z_log_var")(h)
    z = Sampling()([z_mean, z_log_var])
    x_hat = layers.Dense(n_features)(layers.Dense(16, activation="relu")(z))
    vae = keras.Model(x, x_hat, name="vae")

    def vae_loss(y_true, y_pred):
        reconstruction = tf.reduce_sum(tf.square(y_true - y_pred), axis=-1)
        return tf.reduce_mean(reconstruction)

    vae.compile(optimizer=keras.optimizers.Adam(1e-3), loss=vae_loss)
    return vae


rng = np.random.default_rng(0)
steps = int(os.environ.get("STEPS", "40"))
data = rng.normal(size=(16 * steps, 10)).astype("float32")
vae = build_vae(data.shape[1])
history = vae.fit(data, data, epochs=1, batch_size=16, verbose=0)
print("loss", history.history["loss"][-1])
