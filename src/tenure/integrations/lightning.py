"""Lightning: `Trainer(…, callbacks=[TenureCallback()])`.

A step is what Lightning counts as one (`trainer.global_step`). As often as it logs, its loggers get `tenure/bytes`,
`tenure/peak_bytes` and `tenure/growth_per_step`. Works with `lightning` and with `pytorch_lightning`.
"""

from __future__ import annotations

import sys
from typing import Any

from tenure.integrations.training import Callback, made


class Following(Callback):
    """A Lightning callback that records the training. See `tenure.integrations.lightning`."""

    _at = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start recording."""
        self._at = int(trainer.global_step)
        self._tenure.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count a step if this batch completed one: gradients may accumulate over several batches."""
        at = int(trainer.global_step)
        if at == self._at:
            return
        self._at = at
        self._tenure.stepped(at)
        if trainer.loggers and trainer.log_every_n_steps and at % trainer.log_every_n_steps == 0:
            told = self._tenure.numbers()
            for logger in trainer.loggers if told else ():
                logger.log_metrics(told, step=at)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop recording and print the findings."""
        self._tenure.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop recording and print the findings."""
        self._tenure.end()


def __getattr__(name: str) -> Any:
    if name != "TenureCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    bases = ["lightning.pytorch.Callback", "pytorch_lightning.Callback"]
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        bases.reverse()  # the two are the same code twice; a trainer takes only its own callbacks
    value = globals()[name] = made(Following, __name__, *bases)
    return value
