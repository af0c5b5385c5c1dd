"""Trains a tiny causal language model; options and loop follow the Flax example scripts."""

import argparse
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train_steps", type=int, default=int(os.environ.get("STEPS", "40")))
    parser.add_argument("--per_device_train_batch_size", type=int, default=64)
    parser.add_argument("--block_size", type=int, default=64)
    parser.add_argument("--logging_steps", type=int, default=5)
    parser.add_argument("--learning_rate", type=float, default=1e-2)
    return parser.parse_args()


def data_loader(args, vocab_size=32):
    rng = np.random.default_rng(3)
    successor = rng.permutation(vocab_size)
    for _ in range(args.num_train_steps):
        ids = [rng.integers(0, vocab_size, args.per_device_train_batch_size)]
        for _ in range(args.block_size):
            surprise = rng.random(len(ids[0])) < 0.1
            ids.append(np.where(surprise, rng.integers(0, vocab_size, len(ids[0])), successor[ids[-1]]))
        yield np.stack(ids, axis=1).astype(np.int32)


def init_params(key, vocab_size=32, dim=16):
    k1, k2 = jax.random.split(key)
    return {"embed": 0.1 * jax.random.normal(k1, (vocab_size, dim)), "head": 0.1 * jax.random.normal(k2, (dim, vocab_size))}


@partial(jax.jit, static_argnames="tx", donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, batch, tx):
    def loss_fn(params):
        logits = params["embed"][batch[:, :-1]] @ params["head"]
        token_loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:])
        return token_loss.mean(), token_loss

    (loss, token_loss), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = tx.update(grads, opt_state)
    metrics = {"loss": loss, "token_loss": token_loss, "grad_norm": optax.tree.norm(grads)}
    return optax.apply_updates(params, updates), opt_state, metrics


def write_train_metric(writer, train_metrics, step):
    position_loss = np.mean([np.asarray(m["token_loss"]).mean(0) for m in train_metrics], axis=0)
    writer.append((step, float(np.mean([m["loss"] for m in train_metrics])), float(position_loss[-1])))


def main():
    args = parse_args()
    tx = optax.adam(args.learning_rate)
    params = init_params(jax.random.key(0))
    opt_state = tx.init(params)
    writer, train_metrics = [], []
    for step, batch in enumerate(data_loader(args), start=1):
        params, opt_state, train_metric = train_step(params, opt_state, batch, tx)
        train_metrics.append(train_metric)
        if step % args.logging_steps == 0:
            write_train_metric(writer, train_metrics, step)
            train_metrics = []
    for step, loss, last_position in writer[:: max(1, len(writer) // 4)]:
        print(f"step {step}: loss {loss:.3f}, at the last position {last_position:.3f}")


if __name__ == "__main__":
    main()
