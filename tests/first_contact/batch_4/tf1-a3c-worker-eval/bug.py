import os
import threading

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

STATES, ACTIONS = 8, 2


class ACNet:
    def __init__(self):
        self.s = tf.placeholder(tf.float32, [None, STATES], "s")
        self.a = tf.placeholder(tf.int32, [None], "a")
        self.target = tf.placeholder(tf.float32, [None], "target")
        with tf.variable_scope("net"):
            hidden = self._dense(self.s, STATES, 32, "hidden", tf.nn.relu6)
            self.prob = self._dense(hidden, 32, ACTIONS, "policy", tf.nn.softmax)
            self.value = tf.squeeze(self._dense(hidden, 32, 1, "value"), 1)
        advantage = self.target - self.value
        log_prob = tf.log(tf.reduce_sum(self.prob * tf.one_hot(self.a, ACTIONS), 1) + 1e-8)
        self.loss = tf.reduce_mean(0.5 * tf.square(advantage) - log_prob * tf.stop_gradient(advantage))
        self.update = tf.train.RMSPropOptimizer(1e-3).minimize(self.loss)

    @staticmethod
    def _dense(x, fan_in, fan_out, name, activation=tf.identity):
        w = tf.get_variable(name + "_w", [fan_in, fan_out], initializer=tf.random_normal_initializer(0, 0.1))
        b = tf.get_variable(name + "_b", [fan_out], initializer=tf.zeros_initializer())
        return activation(tf.matmul(x, w) + b)

    def choose_action(self, s, rng):
        prob = self.prob.eval({self.s: s[None]})[0]
        return rng.choice(ACTIONS, p=prob / prob.sum())


class Worker(threading.Thread):
    def __init__(self, name, net, coord, steps):
        super().__init__(name=name, daemon=True)
        self.net, self.coord, self.steps = net, coord, steps
        self.rng = np.random.RandomState(hash(name) % 1000)

    def run(self):
        with self.coord.stop_on_exception():
            position = 0
            for _ in range(self.steps):
                states, actions, rewards = [], [], []
                for _ in range(5):
                    s = np.eye(STATES, dtype=np.float32)[position]
                    a = self.net.choose_action(s, self.rng)
                    position = (position + (1 if a else -1)) % STATES
                    states.append(s), actions.append(a), rewards.append(float(position == STATES - 1))
                self.learn(states, actions, rewards, np.eye(STATES, dtype=np.float32)[position])

    def learn(self, states, actions, rewards, last):
        running = self.net.value.eval({self.net.s: last[None]})[0]
        targets = []
        for r in reversed(rewards):
            running = r + 0.9 * running
            targets.insert(0, running)
        self.net.update.run({self.net.s: np.array(states), self.net.a: actions, self.net.target: targets})


def main():
    tf.set_random_seed(0)
    sess = tf.InteractiveSession()
    net = ACNet()
    tf.global_variables_initializer().run()
    coord = tf.train.Coordinator()
    workers = [Worker(f"W_{i}", net, coord, int(os.environ.get("STEPS", "40"))) for i in range(2)]
    for worker in workers:
        worker.start()
    coord.join(workers)
    print("value", net.value.eval({net.s: np.eye(STATES, dtype=np.float32)}).round(2))
    sess.close()


if __name__ == "__main__":
    main()
