import os

import tensorflow as tf

tf.get_logger().setLevel("ERROR")


class Transformer(tf.keras.Model):
    def __init__(self, vocab=60, dim=24):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(vocab, dim)
        self.mix = tf.keras.layers.Dense(dim, activation="relu")
        self.out = tf.keras.layers.Dense(vocab)

    def call(self, tokens):
        return self.out(self.mix(self.embedding(tokens)))


class Trainer:
    def __init__(self, model, warmup=10):
        self.model = model
        self.warmup = warmup
        self.loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function
    def train_step(self, x, step, grad_clip=True, clip_value=1.0):
        inputs, targets = x[:, :-1], x[:, 1:]
        scale = min(1.0, (step + 1) / self.warmup)
        with tf.GradientTape() as tape:
            loss = self.loss_fn(targets, self.model(inputs)) * scale
        gradients = tape.gradient(loss, self.model.trainable_variables)
        if grad_clip:
            gradients = [tf.clip_by_norm(tf.convert_to_tensor(g), clip_value) for g in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss

    def fit(self, dataset):
        for step, x in enumerate(dataset):
            loss = self.train_step(x, step)
        return float(loss)


if __name__ == "__main__":
    tf.random.set_seed(0)
    steps = int(os.environ.get("STEPS", "40"))
    tokens = tf.random.uniform((8 * steps, 12), maxval=60, dtype=tf.int32)
    dataset = tf.data.Dataset.from_tensor_slices(tokens).batch(8)
    print("loss", Trainer(Transformer()).fit(dataset))
