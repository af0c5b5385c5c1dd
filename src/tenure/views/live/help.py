"""The page behind `?`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

_TEXT = """\
tenure top: a running program, watched from outside

  q            leave; the program continues
  tab, 1-9     show one process: the next, or this number; 0 shows all together
  s            sort by bytes, growth, count, or line
  /            show only lines with this text in their path or source; escape shows all
  d            show the next device
  p            pause the screen, and continue
  up, down     move through the lines; page up, page down

bytes now      allocated by this line, and alive now
per step       what stays of it in each of the last steps; ▲ if it grew in most of them
peak           the most bytes alive at one time since the program began
likely         a leak candidate: it grows and is retained, but may still be freed

Numbers are at most two seconds old. Any key closes this page.
"""


class Help(ModalScreen[None]):
    """The list of keys."""

    CSS = """
    Help { align: center middle; }
    Help > VerticalScroll { width: 96; max-width: 95%; height: auto; max-height: 90%; border: round $primary; padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark,enter,space", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        """Yield the text."""
        with VerticalScroll():
            yield Static(_TEXT, markup=False)

    def on_key(self) -> None:
        """Any key leads back."""
        self.dismiss()
