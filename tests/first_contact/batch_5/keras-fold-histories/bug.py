import os

import keras
import numpy as np

FOLDS = int(os.environ.get("STEPS", "40")) // 4


def build_model(features, units):
    return keras.Sequential([
        keras.layers.Input((features,)),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(1),
    ])


def cross_validate(x, y, folds, units=512):
    histories = []
    parts = np.array_split(np.random.permutation(len(x)), folds)
    for k, held_out in enumerate(parts):
        train = np.concatenate([part for i, part in enumerate(parts) if i != k])
        model = build_model(x.shape[1], units)
        model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", run_eagerly=True)
        history = model.fit(
            x[train], y[train], validation_data=(x[held_out], y[held_out]), batch_size=64, epochs=2, verbose=0
        )
        histories.append(history)
    return histories


def main():
    keras.utils.set_random_seed(9)
    x = np.random.normal(size=(320, 12)).astype("float32")
    y = x[:, 0] - 0.5 * x[:, 1]
    histories = cross_validate(x, y, FOLDS)
    scores = [min(history.history["val_loss"]) for history in histories]
    print(f"validation loss {np.mean(scores):.3f} over {len(scores)} folds (+/- {np.std(scores):.3f})")


if __name__ == "__main__":
    main()
