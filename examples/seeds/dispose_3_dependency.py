"""One tensor is computed from another, and the second is disposed.

Claim: the first stays readable; disposal does not cascade.

What happens: AttributeError: there is no tf.experimental.numpy.dispose. The claim itself is true, and `repaired` shows it.
"""

import tensorflow as tf

import tenure

TENURE = None


def asked():
    base = tf.constant([3.0, 4.0])
    square = tf.math.square(base)
    tf.experimental.numpy.dispose(square)
    return base.numpy()


def repaired():
    base = tf.constant([3.0, 4.0])
    square = tenure.own(tf.math.square(base))
    tenure.dispose(square)
    return base.numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
