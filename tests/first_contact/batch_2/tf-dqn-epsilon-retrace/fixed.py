import os
import random

import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")
STEPS = int(os.environ.get("STEPS", "40"))
ACTIONS = 3


class Agent:
    def __init__(self, obs_dim=8):
        self.q = tf.keras.Sequential([
            tf.keras.layers.Input((obs_dim,)),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(ACTIONS),
        ])
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.epsilon = 1.0
        self.epsilon_decay = 0.97

    @tf.function
    def act(self, obs, epsilon):
        greedy = tf.argmax(self.q(obs[None])[0])
        explore = tf.random.uniform((), maxval=ACTIONS, dtype=tf.int64)
        return tf.where(tf.random.uniform(()) < epsilon, explore, greedy)

    @tf.function
    def learn(self, obs, action, reward, next_obs):
        target = reward + 0.95 * tf.reduce_max(self.q(next_obs), axis=1)
        with tf.GradientTape() as tape:
            q = tf.gather(self.q(obs), action, batch_dims=1)
            loss = tf.reduce_mean(tf.square(target - q))
        grads = tape.gradient(loss, self.q.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.q.trainable_variables))
        return loss


def main():
    tf.keras.utils.set_random_seed(0)
    agent, memory = Agent(), []
    obs = np.random.normal(size=8).astype("float32")
    for step in range(STEPS):
        action = int(agent.act(tf.constant(obs), tf.constant(agent.epsilon)))
        next_obs = np.random.normal(size=8).astype("float32")
        memory.append((obs, action, np.float32(obs[action] > 0), next_obs))
        memory = memory[-32:]
        obs = next_obs
        agent.epsilon = max(0.01, agent.epsilon * agent.epsilon_decay)
        batch = [random.choice(memory) for _ in range(8)]
        o, a, r, n = (np.stack(column) for column in zip(*batch))
        loss = agent.learn(tf.constant(o), tf.constant(a), tf.constant(r), tf.constant(n))
    print("epsilon", round(agent.epsilon, 3), "loss", round(float(loss), 3))


if __name__ == "__main__":
    main()
