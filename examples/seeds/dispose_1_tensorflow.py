"""A TensorFlow tensor is disposed, and its data is read afterwards.

Claim: tf.experimental.numpy.dispose() frees the data and leaves the tensor object.

What happens: AttributeError: there is no such function, in tensorflow 2.21 or before. tenure.own() returns a handle that can
be released.
"""

import tensorflow as tf

import tenure

TENURE = None


def asked():
    table = tf.constant([[1, 2], [3, 4]])
    tf.experimental.numpy.dispose(table)
    return table.numpy()


def repaired():
    table = tenure.own(tf.constant([[1, 2], [3, 4]]))
    remains = tenure.dispose(table)
    try:
        _ = table + 1
    except tenure.TensorReleased:
        return remains.freed_bytes
    raise AssertionError("a released tensor was read")


if __name__ == "__main__":
    repaired()
    asked()
