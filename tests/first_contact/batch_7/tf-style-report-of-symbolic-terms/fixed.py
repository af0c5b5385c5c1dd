import os

import tensorflow as tf


def gram(features):
    positions = tf.cast(tf.shape(features)[1] * tf.shape(features)[2], tf.float32)
    return tf.einsum("bijc,bijd->bcd", features, features) / positions


class Extractor(tf.Module):
    """Fixed random filters: good enough for textures."""

    def __init__(self, seed=0, channels=(8, 16)):
        super().__init__()
        generator = tf.random.Generator.from_seed(seed)
        self.kernels, depth = [], 3
        for width in channels:
            self.kernels.append(tf.constant(generator.normal((3, 3, depth, width)) / depth**0.5))
            depth = width

    def __call__(self, image):
        outputs = []
        for kernel in self.kernels:
            image = tf.nn.relu(tf.nn.conv2d(image, kernel, strides=2, padding="SAME"))
            outputs.append(image)
        return outputs


class StyleTransfer:
    def __init__(self, extractor, content, style, style_weight=0.1, variation_weight=1e-3):
        self.extractor = extractor
        self.content_target = extractor(content)[-1]
        self.style_targets = [gram(features) for features in extractor(style)]
        self.style_weight = style_weight
        self.variation_weight = variation_weight
        self.image = tf.Variable(content)

    def total_loss(self):
        outputs = self.extractor(self.image)
        terms = {}
        terms["content"] = tf.reduce_mean((outputs[-1] - self.content_target) ** 2)
        terms["style"] = tf.add_n([
            tf.reduce_mean((gram(output) - target) ** 2) for output, target in zip(outputs, self.style_targets)
        ])
        terms["variation"] = tf.reduce_sum(tf.image.total_variation(self.image))
        return (
            terms["content"]
            + self.style_weight * terms["style"]
            + self.variation_weight * terms["variation"]
        ), terms

    @tf.function
    def step(self, rate):
        with tf.GradientTape() as tape:
            loss, terms = self.total_loss()
        gradient = tape.gradient(loss, self.image)
        self.image.assign(tf.clip_by_value(self.image - rate * gradient / (tf.norm(gradient) + 1e-8), 0.0, 1.0))
        return loss, terms

    def run(self, steps, report_every=2):
        rate = tf.constant(0.5)
        for n in range(1, steps + 1):
            loss, terms = self.step(rate)
            if n % report_every == 0:
                parts = ", ".join(f"{name} {float(value):.4f}" for name, value in terms.items())
                print(f"step {n}: loss {float(loss):.4f} ({parts})")


def main():
    generator = tf.random.Generator.from_seed(3)
    content = tf.image.resize(generator.uniform((1, 4, 4, 3)), (32, 32))
    style = tf.tile(generator.uniform((1, 4, 4, 3)), (1, 8, 8, 1))
    StyleTransfer(Extractor(), content, style).run(int(os.environ.get("STEPS", "40")), report_every=2)


if __name__ == "__main__":
    main()
