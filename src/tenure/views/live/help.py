"""The page behind `?`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

_TEXT = """\
tenure top: a run as it goes, from outside

  q            leave; the run goes on
  tab, 1-9     one process after another, or by its number; 0 for all together
  s            sort by bytes, growth, count, or line
  /            show only lines with this in their place or source; escape shows all
  d            one device after another
  p            hold the picture still, and go on
  up, down     go through the lines; page up, page down

bytes now      alive at this moment, of what this line has made
a step         what stays of it in each of the last steps; ▲ if it grew in most of them
peak           the most that was alive at once since the run began
suspect        something that grows and is held: it is judged when the run is over

Numbers are at most two seconds old. Any key closes this page.
"""


class Help(ModalScreen[None]):
    """What the keys do."""

    CSS = """
    Help { align: center middle; }
    Help > VerticalScroll { width: 96; max-width: 95%; height: auto; max-height: 90%; border: round $primary; padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark,enter,space", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        """The text."""
        with VerticalScroll():
            yield Static(_TEXT, markup=False)

    def on_key(self) -> None:
        """Any key leads back."""
        self.dismiss()
