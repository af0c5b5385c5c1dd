"""The same with the call moved into the session's block.

Claim: now it works reliably, since the session manages the tensor's lifecycle.

What happens: it works, for another reason: the block makes the session's graph the default graph, so the constant is
created in it and is not eager (tensorflow 2.21). Tensors that were created before the block stay eager.
"""

import tensorflow as tf

TENURE = None


def make():
    return tf.constant([10, 20, 30])


def asked():
    with tf.compat.v1.Session() as session:
        values = make()
        return session.run(values).tolist()


def repaired():
    graph = tf.Graph()
    with graph.as_default():
        values = make()
    with tf.compat.v1.Session(graph=graph) as session:
        return session.run(values).tolist()


if __name__ == "__main__":
    repaired()
    asked()
