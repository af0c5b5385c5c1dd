import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class BatchBidder:
    """A bidding network that is asked for one auction after the other."""

    def __init__(self, n_features=40, n_bids=38, temperature=0.8):
        self.temperature = temperature
        self.graph = tf.Graph()
        self.sess = tf.Session(graph=self.graph)
        with self.graph.as_default():
            self.X = tf.placeholder(tf.float32, [None, n_features], name="X")
            hidden = self.dense(self.X, 64, "hidden", tf.nn.relu)
            self.logits = self.dense(hidden, n_bids, "out")
            self.probs = tf.nn.softmax(self.logits / self.temperature)
            self.sess.run(tf.global_variables_initializer())
        self.graph.finalize()

    @staticmethod
    def dense(x, units, name, activation=None):
        with tf.variable_scope(name):
            w = tf.get_variable("w", [x.shape[1], units], initializer=tf.glorot_uniform_initializer(seed=5))
            b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return activation(y) if activation else y

    def predict(self, features):
        return self.sess.run(self.probs, feed_dict={self.X: features})

    def close(self):
        self.sess.close()


def play(bidder, n_boards, rng):
    contracts = []
    for board in range(n_boards):
        hand = rng.random((1, 40), dtype=np.float32)
        for turn in range(4):
            bid_softmax = bidder.predict(hand)[0]
            bid = int(rng.choice(len(bid_softmax), p=bid_softmax / bid_softmax.sum()))
            hand[0, turn] = bid / 38
        contracts.append(bid)
    return contracts


if __name__ == "__main__":
    bidder = BatchBidder()
    contracts = play(bidder, int(os.environ.get("STEPS", "40")), np.random.default_rng(2))
    bidder.close()
    print("boards", len(contracts), "mean contract", np.mean(contracts))
