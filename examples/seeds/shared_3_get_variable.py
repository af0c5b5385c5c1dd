"""A variable is created by name in one function and found by the same name, with reuse=True, in another.

Claim: both calls return the same variable.

What happens: ValueError, "did not get an initializer, so its `shape` argument must be specified": in a program that
runs eagerly, get_variable() stores no names, so nothing can be reused (tensorflow 2.21). In a graph the claim is true.
"""

import tensorflow as tf

TENURE = "TN402"
v1 = tf.compat.v1


def make():
    with v1.variable_scope("shared"):
        return v1.get_variable("weights", [2, 2], initializer=tf.zeros_initializer())


def find():
    with v1.variable_scope("shared", reuse=True):
        return v1.get_variable("weights")


def asked():
    return make() is find()


def repaired():
    with tf.Graph().as_default():
        return make() is find()


if __name__ == "__main__":
    repaired()
    asked()
