"""Finding lifetime faults in source, without running or importing it."""

from __future__ import annotations
