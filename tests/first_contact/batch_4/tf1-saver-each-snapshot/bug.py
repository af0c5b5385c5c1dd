import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


class Word2Vec:
    def __init__(self, vocab=200, dim=16):
        self.center = tf.placeholder(tf.int32, [None])
        self.context = tf.placeholder(tf.int32, [None, 1])
        self.embeddings = tf.Variable(tf.random_uniform([vocab, dim], -1.0, 1.0), name="embeddings")
        weights = tf.Variable(tf.truncated_normal([vocab, dim], stddev=dim**-0.5), name="nce_weights")
        biases = tf.Variable(tf.zeros([vocab]), name="nce_biases")
        hidden = tf.nn.embedding_lookup(self.embeddings, self.center)
        self.loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, self.context, hidden, 16, vocab))
        self.step = tf.train.get_or_create_global_step()
        self.train_op = tf.train.AdagradOptimizer(0.5).minimize(self.loss, global_step=self.step)


class SolverWrapper:
    def __init__(self, sess, model, output_dir, snapshot_every=2):
        self.sess = sess
        self.model = model
        self.output_dir = output_dir
        self.snapshot_every = snapshot_every

    def snapshot(self):
        saver = tf.train.Saver(max_to_keep=3)
        return saver.save(self.sess, os.path.join(self.output_dir, "w2v"), self.model.step, write_meta_graph=False)

    def train_model(self, max_iters, batches):
        path, average = None, 0.0
        for iteration, (center, context) in zip(range(1, max_iters + 1), batches):
            feed = {self.model.center: center, self.model.context: context[:, None]}
            _, loss = self.sess.run([self.model.train_op, self.model.loss], feed)
            average += (loss - average) / iteration
            if iteration % self.snapshot_every == 0:
                path = self.snapshot()
        return path, average


def skip_grams(rng, size=64, vocab=200):
    while True:
        center = rng.randint(0, vocab, size)
        yield center, (center + rng.randint(-2, 3, size)) % vocab


def main():
    tf.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder, tf.Session() as sess:
        model = Word2Vec()
        sess.run(tf.global_variables_initializer())
        solver = SolverWrapper(sess, model, folder)
        path, loss = solver.train_model(int(os.environ.get("STEPS", "40")), skip_grams(np.random.RandomState(0)))
        print("nce loss %.2f" % loss, path and os.path.basename(path))


if __name__ == "__main__":
    main()
