"""Hugging Face: `Trainer(…, callbacks=[TenureCallback()])`.

A step is what the Trainer counts as one. As often as it logs, `tenure/bytes`, `tenure/peak_bytes` and
`tenure/growth_per_step` are added to its log history, and to the logs that callbacks behind this one get. The Trainer
puts its own reporters (TensorBoard and so on) before the callbacks that it is given; `TenureCallback().attach(trainer)`
comes before them, so that they report the numbers too.
"""

from __future__ import annotations

from typing import Any, Self

from tenure.integrations.training import Callback, made


class Following(Callback):
    """A callback of Hugging Face's Trainer that records the training. See `tenure.integrations.transformers`."""

    def attach(self, trainer: Any) -> Self:
        """Add this to a trainer, before the callbacks that report."""
        trainer.add_callback(self)
        callbacks = trainer.callback_handler.callbacks
        callbacks.insert(1, callbacks.pop(callbacks.index(self)))  # behind the one that decides when to log
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start recording."""
        self._tenure.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a step."""
        self._tenure.stepped(int(state.global_step))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add the numbers to the logs of the callbacks, and to the history, which has a copy."""
        told = self._tenure.numbers()
        if logs is not None:
            logs.update(told)
        if state.log_history:
            state.log_history[-1].update(told)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop recording and print the findings."""
        self._tenure.end()


def __getattr__(name: str) -> Any:
    if name != "TenureCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = made(Following, __name__, "transformers.TrainerCallback")
    return value
