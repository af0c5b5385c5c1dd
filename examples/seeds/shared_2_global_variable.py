"""A tf.Variable in a global is created by one function and read by another.

Claim: it works, with care for threads.

What happens: it works. True, as long as it is not created inside a traced function on a later call.
"""

import tensorflow as tf

TENURE = None


shared = None


def make():
    global shared
    shared = tf.Variable([7.0, 8.0])


def asked():
    make()
    return shared.numpy().tolist()


def make_once():
    return tf.Variable([7.0, 8.0])


def repaired():
    # Without a global: pass the variable to the functions that need it.
    variable = make_once()
    return variable.numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
