"""A tensor is created in one function and used in another part of the program.

Claim: returning it is the simplest way.

What happens: it works. True.
"""

import tensorflow as tf

TENURE = None


def make():
    return tf.constant([0.5, 1.5])


def asked():
    ours = make()
    return (ours + 2.0).numpy().tolist()


def repaired():
    return asked()


if __name__ == "__main__":
    repaired()
    asked()
