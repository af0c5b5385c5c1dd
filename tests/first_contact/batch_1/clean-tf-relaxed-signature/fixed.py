import os

import tensorflow as tf


class Ragged(tf.Module):
    def __init__(self, units=12):
        super().__init__()
        self.kernel = tf.Variable(tf.random.normal((4, units), stddev=0.2))
        self.total = tf.Variable(0.0, trainable=False)
        self.lengths = []

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([], tf.int32)])
    def encode(self, sequence, position):
        scale = tf.cast(position + 1, tf.float32)
        hidden = tf.nn.relu(sequence @ self.kernel) / scale
        self.total.assign_add(tf.reduce_sum(hidden))
        return tf.reduce_max(hidden, axis=0)


def main():
    tf.random.set_seed(0)
    encoder = Ragged()
    best = tf.zeros(12)
    for position in range(int(os.environ.get("STEPS", "40"))):
        length = 3 + (position * 7) % 23
        encoder.lengths.append(length)
        pooled = encoder.encode(tf.random.normal((length, 4)), position)
        best = tf.maximum(best, pooled)
    print("traces", encoder.encode.experimental_get_tracing_count(), "lengths", len(set(encoder.lengths)))
    print("best", float(tf.reduce_mean(best)), "total", float(encoder.total))


if __name__ == "__main__":
    main()
