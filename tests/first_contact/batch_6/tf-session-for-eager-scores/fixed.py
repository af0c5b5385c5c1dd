"""Word beam search for a text line recogniser, ported with tf_upgrade_v2."""

import os
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Charset:
    chars: str

    def decode(self, labels):
        merged = [a for a, b in zip(labels, [-1, *labels]) if a != b]
        return "".join(self.chars[i] for i in merged if i < len(self.chars))


class LineScorer:
    """Smooths the network's output over time and adds what is known about the letters of the language."""

    def __init__(self, prior, smoothing=3):
        self.prior = tf.constant(np.log(prior), tf.float32)
        self.kernel = tf.ones([smoothing, 1, 1]) / smoothing

    def log_probs(self, mat):
        by_char = tf.transpose(mat)[:, :, tf.newaxis]
        smooth = tf.nn.conv1d(by_char, self.kernel, stride=1, padding="SAME")
        return tf.nn.log_softmax(tf.transpose(smooth[:, :, 0]) + self.prior)


def best_path(mat, scorer):
    log_probs = scorer.log_probs(mat)
    labels = tf.argmax(log_probs, axis=1)
    score = tf.reduce_sum(tf.reduce_max(log_probs, axis=1))
    return labels.numpy(), float(score)


def synthetic_line(text, charset, rng, width=4):
    labels = [charset.chars.index(c) for c in text for _ in range(width)]
    mat = rng.normal(scale=0.5, size=(len(labels), len(charset.chars) + 1))
    mat[np.arange(len(labels)), labels] += 3
    return mat.astype("float32")


def main():
    rng = np.random.default_rng(0)
    charset = Charset("abcdefgh ")
    prior = np.full(len(charset.chars) + 1, 1.0 / (len(charset.chars) + 1))
    scorer = LineScorer(prior)
    correct = 0
    lines = int(os.environ.get("STEPS", "40"))
    for _ in range(lines):
        text = "".join(rng.permutation(list(charset.chars))[:5])
        labels, score = best_path(synthetic_line(text, charset, rng), scorer)
        correct += charset.decode(labels.tolist()) == text
    print(f"{correct} of {lines} lines are right, last score {score:.1f}")


if __name__ == "__main__":
    main()
