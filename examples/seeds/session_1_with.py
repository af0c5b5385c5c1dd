"""Two constants are added in a session's `with` block.

Claim: the ideal approach, it prints 30.

What happens: RuntimeError, "The Session graph is empty": the tensor is eager and was never in the session's graph (tensorflow 2.21).
"""

import tensorflow as tf

TENURE = "TN202"


def asked():
    total = tf.add(tf.constant(12), tf.constant(18))
    with tf.compat.v1.Session() as session:
        return int(session.run(total))


def repaired():
    graph = tf.Graph()
    with graph.as_default():
        total = tf.add(tf.constant(12), tf.constant(18))
    with tf.compat.v1.Session(graph=graph) as session:
        return int(session.run(total))


if __name__ == "__main__":
    repaired()
    asked()
