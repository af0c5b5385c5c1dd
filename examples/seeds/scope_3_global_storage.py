"""A global keeps the tensor for another function's session.

Claim: a global is persistent storage that makes the tensor available.

What happens: RuntimeError, "The Session graph is empty": the tensor is eager and was never in the session's graph (tensorflow 2.21). A
global does not change that.
"""

import tensorflow as tf

TENURE = "TN202"


kept = None


def make():
    global kept
    kept = tf.constant([40, 50])


def asked():
    make()
    with tf.compat.v1.Session() as session:
        return session.run(kept)


def repaired():
    make()
    return (kept * 2).numpy().tolist()


if __name__ == "__main__":
    repaired()
    asked()
