"""A Python `if` on an eager tensor chooses what is returned.

Claim: the result may be deallocated after the `if`; tf.cond is preferable for this reason.

What happens: it works. A name that a branch binds still exists after it, in Python and in eager TensorFlow.
"""

import tensorflow as tf

TENURE = None


def bump(flag, amount):
    if flag:
        larger = amount + 1
        return larger  # noqa: RET504 - the question is about this name
    return amount


def asked():
    return int(bump(tf.constant(True), tf.constant(0)))


def repaired():
    # tf.cond chooses inside a graph; it does not keep anything alive longer.
    flag, amount = tf.constant(True), tf.constant(0)
    return int(tf.cond(flag, lambda: amount + 1, lambda: amount))


if __name__ == "__main__":
    repaired()
    asked()
