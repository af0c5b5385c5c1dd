"""A session is closed and then asked to run.

Claim: it raises "Session is closed."

What happens: RuntimeError, "Attempted to use a closed Session." (tensorflow 2.21): the claim is true.
"""

import tensorflow as tf

TENURE = "TN201"


def asked():
    graph = tf.Graph()
    with graph.as_default():
        total = tf.add(tf.constant(12), tf.constant(18))
    session = tf.compat.v1.Session(graph=graph)
    session.close()
    return int(session.run(total))


def repaired():
    graph = tf.Graph()
    with graph.as_default():
        total = tf.add(tf.constant(12), tf.constant(18))
    session = tf.compat.v1.Session(graph=graph)
    try:
        return int(session.run(total))
    finally:
        session.close()


if __name__ == "__main__":
    repaired()
    asked()
