import os

import tensorflow as tf


class LinearBandit(tf.Module):
    def __init__(self, arms, features):
        super().__init__()
        self.theta = tf.Variable(tf.zeros((arms, features)), name="theta")

    def scores(self, context):
        return tf.linalg.matvec(self.theta, context)


class Learner:
    def __init__(self, arms=4, features=6, learning_rate=0.05):
        self.bandit = LinearBandit(arms, features)
        self.optimizer = tf.keras.optimizers.Adam(learning_rate)
        self.optimizer.build(self.bandit.trainable_variables)

    @tf.function
    def learn(self, contexts, arms, rewards):
        with tf.GradientTape() as tape:
            scores = tf.map_fn(self.bandit.scores, contexts)
            chosen = tf.gather(scores, arms, batch_dims=1)
            loss = tf.reduce_mean(tf.square(chosen - rewards))
        variables = self.bandit.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss


def main():
    tf.random.set_seed(0)
    learner = Learner()
    true_theta = tf.random.normal((4, 6))
    for _ in range(int(os.environ.get("STEPS", "40"))):
        contexts = tf.random.normal((32, 6))
        arms = tf.random.uniform((32,), maxval=4, dtype=tf.int32)
        rewards = tf.reduce_sum(tf.gather(true_theta, arms) * contexts, axis=1)
        loss = learner.learn(contexts, arms, rewards)
    print("loss", round(float(loss), 3))


if __name__ == "__main__":
    main()
