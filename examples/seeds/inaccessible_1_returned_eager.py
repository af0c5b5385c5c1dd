"""An eager tensor is returned from a function and read outside.

Claim: the tensor is deallocated with the function, and reading it raises InaccessibleTensorError.

What happens: it works and returns the numbers. An eager tensor stays alive as long as something references it. A symbolic
tensor that escaped from a tf.function raises InaccessibleTensorError, see the comment in `repaired`.
"""

import tensorflow as tf

TENURE = None


def make():
    return tf.constant([1.5, 2.5])


def asked():
    outside = make()
    return outside.numpy().tolist()


def repaired():
    # Under @tf.function, a tensor that is stored elsewhere would be symbolic; a returned one is not.
    traced = tf.function(make)
    return traced().numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
