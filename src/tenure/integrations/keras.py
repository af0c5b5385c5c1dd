"""Keras: `model.fit(…, callbacks=[TenureCallback()])`.

Each batch is a step. At the end of each epoch its logs get `tenure/bytes`, `tenure/peak_bytes` and
`tenure/growth_per_step`, which `History` keeps, and which later callbacks (TensorBoard, CSVLogger) log.
"""

from __future__ import annotations

from typing import Any

from tenure.integrations.training import Callback, made


class Following(Callback):
    """A Keras callback that records the training. See `tenure.integrations.keras`."""

    _batches = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Start recording."""
        self._batches = 0
        self._tenure.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step."""
        self._batches += 1
        self._tenure.stepped(self._batches)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the numbers to the logs."""
        if isinstance(logs, dict):
            logs.update(self._tenure.numbers())

    def on_train_end(self, logs: Any = None) -> None:
        """Stop recording and print the findings."""
        self._tenure.end()


def __getattr__(name: str) -> Any:
    if name != "TenureCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = made(Following, __name__, "keras.callbacks.Callback")
    return value
