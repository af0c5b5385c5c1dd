import os

import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "40"))


class WGAN:
    def __init__(self, latent=4, features=6, penalty=10.0):
        dense = tf.keras.layers.Dense
        self.generator = tf.keras.Sequential([tf.keras.layers.Input((latent,)), dense(32, "relu"), dense(features)])
        self.critic = tf.keras.Sequential([tf.keras.layers.Input((features,)), dense(32, tf.nn.leaky_relu), dense(1)])
        self.g_optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)
        self.c_optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)
        self.latent = latent
        self.penalty = penalty

    def gradient_penalty(self, real, fake):
        mix = tf.random.uniform((tf.shape(real)[0], 1))
        between = mix * real + (1 - mix) * fake
        with tf.GradientTape() as tape:
            tape.watch(between)
            scores = self.critic(between, training=True)
        slopes = tf.norm(tape.gradient(scores, between), axis=1)
        return tf.reduce_mean(tf.square(slopes - 1.0))

    @tf.function
    def train_step(self, real):
        noise = tf.random.normal((tf.shape(real)[0], self.latent))
        with tf.GradientTape(persistent=True) as tape:
            fake = self.generator(noise, training=True)
            real_score = tf.reduce_mean(self.critic(real, training=True))
            fake_score = tf.reduce_mean(self.critic(fake, training=True))
            critic_loss = fake_score - real_score + self.penalty * self.gradient_penalty(real, fake)
            generator_loss = -fake_score
        critic_grads = tape.gradient(critic_loss, self.critic.trainable_variables)
        generator_grads = tape.gradient(generator_loss, self.generator.trainable_variables)
        del tape
        self.c_optimizer.apply_gradients(zip(critic_grads, self.critic.trainable_variables))
        self.g_optimizer.apply_gradients(zip(generator_grads, self.generator.trainable_variables))
        return critic_loss, generator_loss


tf.keras.utils.set_random_seed(6)
gan = WGAN()
history = {"critic": [], "generator": []}
for step in range(STEPS):
    critic_loss, generator_loss = gan.train_step(tf.random.normal((32, 6), mean=2.0))
    history["critic"].append(float(critic_loss))
    history["generator"].append(float(generator_loss))
print({name: round(sum(values[-10:]) / 10, 3) for name, values in history.items()})
