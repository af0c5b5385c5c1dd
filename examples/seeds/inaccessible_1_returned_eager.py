"""An eager tensor is returned from a function and read outside.

Claim: the tensor is deallocated with the function, and reading it raises InaccessibleTensorError.

What happens: it works and gives the numbers. An eager tensor lives as long as something refers to it; what raises
InaccessibleTensorError is a symbolic tensor that got out of a tf.function, as in `repaired`'s comment.
"""

import tensorflow as tf

TENURE = None


def make():
    return tf.constant([1.5, 2.5])


def asked():
    outside = make()
    return outside.numpy().tolist()


def repaired():
    # Only under @tf.function would a tensor kept on the side be symbolic; what is returned is not.
    traced = tf.function(make)
    return traced().numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
