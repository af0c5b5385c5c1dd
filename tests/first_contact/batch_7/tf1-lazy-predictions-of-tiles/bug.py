"""Writes the building masks of map tiles with a frozen graph."""

import json
import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def frozen_detector(size=16, classes=3):
    """The graph as it comes from the model zoo."""
    rng = np.random.default_rng(0)
    with tf1.Graph().as_default() as graph:
        tiles = tf1.placeholder(tf.float32, [None, size, size, 3], name="image_tensor")
        kernel = tf1.constant(rng.normal(size=(3, 3, 3, 8)), tf.float32)
        features = tf1.nn.relu(tf1.nn.conv2d(tiles, kernel, strides=[1, 2, 2, 1], padding="SAME"))
        weights = tf1.constant(rng.normal(size=(8, classes)), tf.float32)
        scores = tf1.nn.softmax(tf1.tensordot(tf1.reduce_mean(features, axis=[1, 2]), weights, 1))
        tf1.identity(scores, name="detection_scores")
        tf1.argmax(scores, axis=1, name="detection_classes")
    return graph.as_graph_def()


class TileReader:
    def __init__(self, count, size=16):
        self.count = count
        self.size = size

    def __iter__(self):
        rng = np.random.default_rng(5)
        for n in range(self.count):
            yield f"14-{8800 + n // 8}-{5300 + n % 8}", rng.random((1, self.size, self.size, 3), dtype=np.float32)


def predict_tiles(graph_def, tiles):
    graph = tf1.Graph()
    with graph.as_default():
        tf1.import_graph_def(graph_def, name="")
    image_tensor = graph.get_tensor_by_name("image_tensor:0")
    fetches = [graph.get_tensor_by_name(f"detection_{name}:0") for name in ("scores", "classes")]
    with tf1.Session(graph=graph) as sess:
        return ((name, *sess.run(fetches, feed_dict={image_tensor: image})) for name, image in tiles)


def as_record(name, scores, classes):
    return json.dumps({"tile": name, "class": int(classes[0]), "score": round(float(scores[0, classes[0]]), 3)})


def main():
    tiles = TileReader(int(os.environ.get("STEPS", "40")))
    records = [as_record(*prediction) for prediction in predict_tiles(frozen_detector(), tiles)]
    print(f"{len(records)} tiles, first: {records[0]}")


if __name__ == "__main__":
    main()
