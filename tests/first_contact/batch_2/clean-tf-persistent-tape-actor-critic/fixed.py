import os

import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "40"))
HORIZON = 10


class ActorCritic(tf.keras.Model):
    def __init__(self, actions=2, units=24):
        super().__init__()
        self.common = tf.keras.layers.Dense(units, activation="relu")
        self.actor = tf.keras.layers.Dense(actions)
        self.critic = tf.keras.layers.Dense(1)

    def call(self, inputs):
        x = self.common(inputs)
        return self.actor(x), self.critic(x)


def run_episode(state, model):
    log_probs = tf.TensorArray(tf.float32, size=HORIZON)
    values = tf.TensorArray(tf.float32, size=HORIZON)
    rewards = tf.TensorArray(tf.float32, size=HORIZON)
    for t in tf.range(HORIZON):
        logits, value = model(state[None])
        action = tf.random.categorical(logits, 1)[0, 0]
        log_probs = log_probs.write(t, tf.nn.log_softmax(logits)[0, action])
        values = values.write(t, tf.squeeze(value))
        rewards = rewards.write(t, tf.cast(tf.equal(action, tf.cast(state[0] > 0, tf.int64)), tf.float32))
        state = tf.roll(state, 1, 0) * 0.99
    return log_probs.stack(), values.stack(), rewards.stack()


def expected_return(rewards, gamma=0.95):
    reverse = tf.scan(lambda total, r: r + gamma * total, rewards[::-1], initializer=tf.constant(0.0))
    return reverse[::-1]


def make_train_step(model, actor_optimizer, critic_optimizer):
    @tf.function
    def train_step(state):
        with tf.GradientTape(persistent=True) as tape:
            log_probs, values, rewards = run_episode(state, model)
            returns = expected_return(rewards)
            advantage = tf.stop_gradient(returns - values)
            actor_loss = -tf.reduce_sum(log_probs * advantage)
            critic_loss = tf.reduce_sum(tf.square(returns - values))
        actor_variables = model.common.trainable_variables + model.actor.trainable_variables
        critic_variables = model.critic.trainable_variables
        actor_grads = tape.gradient(actor_loss, actor_variables)
        critic_grads = tape.gradient(critic_loss, critic_variables)
        del tape
        actor_optimizer.apply_gradients(zip(actor_grads, actor_variables))
        critic_optimizer.apply_gradients(zip(critic_grads, critic_variables))
        return tf.reduce_sum(rewards)

    return train_step


tf.keras.utils.set_random_seed(5)
model = ActorCritic()
model(tf.zeros((1, 4)))
train_step = make_train_step(model, tf.keras.optimizers.Adam(1e-2), tf.keras.optimizers.Adam(1e-2))
running = 0.0
for episode in range(STEPS):
    reward = train_step(tf.random.normal((4,)))
    running = 0.9 * running + 0.1 * float(reward)
print("running reward", round(running, 2))
