import os
import queue
import threading

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


class Recommender:
    def __init__(self, n_items, dim=8):
        self.n_items = n_items
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.history = tf1.placeholder(tf.int32, [None, None], name="history")
            table = tf1.get_variable("items", [n_items, dim], initializer=tf1.random_normal_initializer(seed=1))
            self.user = tf.reduce_mean(tf.gather(table, self.history), axis=1)
            self.scores = tf.matmul(self.user, table, transpose_b=True)
            self.init = tf1.global_variables_initializer()


class ScoringWorker(threading.Thread):
    def __init__(self, model, requests, answers):
        super().__init__()
        self.model = model
        self.requests = requests
        self.answers = answers
        self.failure = None

    def run(self):
        try:
            seen = tf1.placeholder(tf.float32, [None, None], name="seen")
            ranking = tf.math.top_k(self.model.scores - 1e9 * seen, k=3).indices
            with tf1.Session(graph=self.model.graph) as session:
                session.run(self.model.init)
                while (history := self.requests.get()) is not None:
                    mask = np.zeros((len(history), self.model.n_items), "float32")
                    np.put_along_axis(mask, history, 1.0, axis=1)
                    self.answers.put(session.run(ranking, {self.model.history: history, seen: mask}))
        except Exception as exc:
            self.failure = exc

    def result(self):
        self.join()
        if self.failure is not None:
            raise self.failure


def main():
    rng = np.random.default_rng(0)
    requests, answers = queue.Queue(), queue.Queue()
    model = Recommender(n_items=50)
    with model.graph.as_default():
        worker = ScoringWorker(model, requests, answers)
        worker.start()
        for _ in range(int(os.environ.get("STEPS", "40"))):
            requests.put(rng.integers(0, 50, size=(2, 5)))
        requests.put(None)
    worker.result()
    print("answered", answers.qsize(), "first", answers.get().tolist())


if __name__ == "__main__":
    main()
