"""A second name is given to a tensor to keep it from being deallocated.

Claim: the explicit second reference prevents the error.

What happens: it works with and without the second name: the first name is already a reference.
"""

import tensorflow as tf

TENURE = None


def asked():
    first = tf.constant([4, 5])
    second = first
    return tf.multiply(second, 2).numpy().tolist()


def repaired():
    first = tf.constant([4, 5])
    return tf.multiply(first, 2).numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
