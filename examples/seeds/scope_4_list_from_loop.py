"""Tensors created in a loop are kept in a list, then run in a session.

Claim: this handles the tensors correctly, each iteration with its own session graph.

What happens: RuntimeError, "The Session graph is empty": the tensor is eager and was never in the session's graph (tensorflow 2.21).
The loop releases nothing, and no iteration has a graph.
"""

import tensorflow as tf

TENURE = "TN202"


def collect():
    found = []
    for start in range(3):
        row = tf.range(start, start + 3)
        found.append(row)
    return found


def asked():
    rows = collect()
    with tf.compat.v1.Session() as session:
        return [session.run(row) for row in rows]


def repaired():
    return [row.numpy().tolist() for row in collect()]


if __name__ == "__main__":
    repaired()
    asked()
