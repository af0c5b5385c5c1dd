import os

import tensorflow as tf

VOCAB, UNITS, START = 30, 24, 1


class Decoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(VOCAB, UNITS)
        self.cell = tf.keras.layers.GRUCell(UNITS)
        self.fc = tf.keras.layers.Dense(VOCAB)

    def call(self, token, state):
        output, state = self.cell(self.embedding(token), state)
        return self.fc(output), state


class Translator(tf.Module):
    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    @tf.function
    def translate(self, context, max_length):
        token = tf.fill([tf.shape(context)[0]], START)
        state = context
        result = tf.TensorArray(tf.int32, size=max_length)
        for i in tf.range(max_length):
            logits, state = self.decoder(token, state)
            token = tf.argmax(logits, axis=-1, output_type=tf.int32)
            result = result.write(i, token)
        return tf.transpose(result.stack())


def train(decoder, steps):
    optimizer = tf.keras.optimizers.Adam(1e-2)
    for _ in range(steps):
        context = tf.random.normal((16, UNITS))
        target = tf.argmax(context, axis=1)
        with tf.GradientTape() as tape:
            logits, _ = decoder(tf.fill([16], START), context)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
        grads = tape.gradient(loss, decoder.trainable_variables)
        optimizer.apply_gradients(zip(grads, decoder.trainable_variables))
    return float(loss)


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(3)
    decoder = Decoder()
    print("loss", round(train(decoder, int(os.environ.get("STEPS", "40"))), 2))
    translator = Translator(decoder)
    sentences = translator.translate(tf.random.normal((2, UNITS)), tf.constant(5))
    print(sentences.numpy())
