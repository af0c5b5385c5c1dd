import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


class ChurnModel:
    def __init__(self, coefficients, intercept):
        self.customers = tf1.placeholder(tf.float32, [None, len(coefficients)], name="customers")
        weights = tf.constant(coefficients, tf.float32)
        self.scores = tf.sigmoid(tf.linalg.matvec(self.customers, weights) + intercept)
        self.graph = self.scores.graph


class ScoringService:
    def __init__(self, model, workers=2):
        self.model = model
        self.pool = ThreadPoolExecutor(workers)

    def handle(self, request):
        spending = np.asarray(request["spending"], dtype="float32")
        with tf1.Session() as session:
            batch = session.run(tf.math.log1p(spending))
            scores = session.run(self.model.scores, feed_dict={self.model.customers: batch})
        return {"id": request["id"], "scores": scores.tolist()}

    def serve(self, requests):
        return list(self.pool.map(self.handle, requests))


def main():
    rng = np.random.default_rng(7)
    service = ScoringService(ChurnModel(rng.normal(size=5), -0.3))
    requests = [{"id": n, "spending": rng.gamma(2.0, size=(3, 5))} for n in range(int(os.environ.get("STEPS", "40")))]
    replies = service.serve(requests)
    print(len(replies), "replies, first", replies[0])


if __name__ == "__main__":
    main()
