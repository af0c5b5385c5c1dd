import os

import numpy as np
import tensorflow as tf


class GaussianBandit:
    def __init__(self, arms=6, seed=0):
        self.rng = np.random.default_rng(seed)
        self.means = self.rng.normal(size=arms)

    def pull(self, arms):
        return (self.means[arms] + 0.1 * self.rng.normal(size=len(arms))).astype("float32")


class PolicyGradientAgent(tf.Module):
    def __init__(self, arms=6, lr=0.3, decay=0.9):
        super().__init__(name="agent")
        self.preferences = tf.Variable(tf.zeros(arms))
        self.baseline = tf.Variable(0.0, trainable=False)
        self.lr, self.decay = lr, decay

    def choose(self, n, seed):
        logits = tf.repeat(self.preferences[tf.newaxis], n, axis=0)
        return tf.random.stateless_categorical(logits, 1, seed=[seed, 0])[:, 0].numpy()

    @tf.function
    def update(self, arms, rewards):
        with tf.GradientTape() as tape:
            log_probs = tf.gather(tf.nn.log_softmax(self.preferences), arms)
            loss = -tf.reduce_mean(log_probs * (rewards - self.baseline))
        gradient = tape.gradient(loss, self.preferences)
        self.preferences.assign_sub(self.lr * gradient)
        self.baseline.assign(self.decay * self.baseline + (1 - self.decay) * tf.reduce_mean(rewards))
        return loss


def run(agent, bandit, rounds, batch=32):
    average = 0.0
    for number in range(rounds):
        arms = agent.choose(batch, seed=number)
        rewards = bandit.pull(arms)
        agent.update(tf.constant(arms), tf.constant(rewards))
        average = 0.8 * average + 0.2 * rewards.mean()
    return average


def main():
    agent, bandit = PolicyGradientAgent(), GaussianBandit()
    average = run(agent, bandit, int(os.environ.get("STEPS", "40")))
    print(f"average reward {average:.2f}, best arm {bandit.means.max():.2f}")
    print(f"learned baseline {agent.baseline.numpy():.2f}")


if __name__ == "__main__":
    main()
