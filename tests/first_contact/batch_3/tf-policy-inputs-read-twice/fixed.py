import os

import tensorflow as tf


class RolloutPolicy(tf.keras.Model):
    def __init__(self, actions, units=24):
        super().__init__()
        self.cell = tf.keras.layers.GRUCell(units)
        self.head = tf.keras.layers.Dense(actions)
        self.actions = actions

    def unroll(self, trajectory, horizon):
        steps = trajectory.shape[0]
        inputs = tf.TensorArray(tf.float32, size=steps, clear_after_read=False).unstack(trajectory)
        outputs = tf.TensorArray(tf.float32, size=steps)
        state = tf.zeros([trajectory.shape[1], self.cell.units])
        action = tf.zeros([trajectory.shape[1], self.actions])
        for t in range(steps):
            frame = inputs.read(t)
            if t > horizon:
                expert = inputs.read(t - 1)[:, : self.actions]
                action = 0.5 * (action + expert)
            features, _ = self.cell(tf.concat([frame, action], axis=1), [state])
            state = features
            action = self.head(features)
            outputs = outputs.write(t, action)
        return outputs.stack()


policy = RolloutPolicy(actions=2)
optimizer = tf.keras.optimizers.Adam(1e-3)


def train_step(trajectory, horizon):
    with tf.GradientTape() as tape:
        predicted = policy.unroll(trajectory[:-1], horizon)
        loss = tf.reduce_mean(tf.square(predicted - trajectory[1:, :, :2]))
    variables = policy.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


def main():
    tf.keras.utils.set_random_seed(4)
    for iteration in range(int(os.environ.get("STEPS", "40"))):
        walk = tf.cumsum(tf.random.normal([11, 16, 6], stddev=0.1), axis=0)
        loss = train_step(walk, horizon=max(3, 8 - iteration // 5))
    print("imitation loss", round(float(loss), 4))


main()
