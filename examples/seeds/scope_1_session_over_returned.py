"""A tensor is created in a function, returned, and run in a session.

Claim: it fails because the tensor is out of scope once the function has returned.

What happens: RuntimeError, "The Session graph is empty": the tensor is eager and was never in the session's graph (tensorflow 2.21).
"""

import tensorflow as tf

TENURE = "TN202"


def make():
    return tf.constant([10, 20, 30])


def asked():
    values = make()
    with tf.compat.v1.Session() as session:
        return session.run(values)


def repaired():
    return make().numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
