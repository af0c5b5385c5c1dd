"""The same with the error caught and the session closed again in `finally`.

Claim: robust error handling that closes the session gracefully.

What happens: the RuntimeError of the empty graph is caught and printed as a general error, which hides that the program can
never work; closing twice does nothing (tensorflow 2.21).
"""

import tensorflow as tf

TENURE = "TN202"


def asked():
    total = tf.add(tf.constant(12), tf.constant(18))
    try:
        with tf.compat.v1.Session() as session:
            return int(session.run(total))
    finally:
        session.close()


def repaired():
    graph = tf.Graph()
    with graph.as_default():
        total = tf.add(tf.constant(12), tf.constant(18))
    with tf.compat.v1.Session(graph=graph) as session:  # closes it, also when run() raises
        return int(session.run(total))


if __name__ == "__main__":
    repaired()
    asked()
