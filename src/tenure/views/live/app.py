"""The live view: a screen that a thread keeps up to date, and keys."""

from __future__ import annotations

import dataclasses
import threading
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static

from tenure.errors import TenureError
from tenure.model import size
from tenure.views.live import chart
from tenure.views.live.help import Help
from tenure.views.live.picture import ALL, Note, Picture, Wish, safe
from tenure.views.live.plain import headline
from tenure.views.live.rows import next_order
from tenure.views.live.session import Session

_PAUSE = 1.0  # seconds between two looks: most of what a look costs does not depend on how much came. Keys do not wait
_HEIGHT = 6
_PLACE = 44  # letters: the source is to be seen, too
_HEADS = {
    "bytes": "bytes now",
    "growth": "per step",
    "count": "count",
    "device": "device",
    "line": "allocated at",
    "source": "source",
}


class Top(App[None]):
    """A run, as it goes. Texts of a trace are shown as they are: none is read as markup."""

    TITLE = "tenure top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { text-style: bold; height: 1; }
    #status { height: 1; color: $text-muted; }
    #bytes { height: 1; margin-top: 1; text-style: bold; color: $text-accent; }
    #curve { height: 7; color: $text-primary; }
    #processes { height: auto; max-height: 2; display: none; }
    #trouble { height: auto; max-height: 3; color: $text-error; display: none; text-wrap: nowrap; text-overflow: ellipsis; }
    #lines { height: 1fr; min-height: 5; margin-top: 1; scrollbar-size-horizontal: 0; }
    #notes { height: auto; max-height: 40%; border-top: solid $primary; display: none; }
    #filter { display: none; border: none; height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("tab", "process(1)", "process", priority=True),
        Binding("shift+tab", "process(-1)", show=False, priority=True),
        Binding("s", "order", "sort"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("d", "device", "device"),
        Binding("p", "pause", "pause"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("escape", "clear", show=False),
        *(Binding(str(number), f"choose({number})", show=False) for number in range(10)),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.wish = Wish()
        self.picture: Picture | None = None
        self.looks = 0
        self._order = self.wish.order
        self._cells: list[list[Text]] = []  # of the table, as they are shown
        self.paused = False
        self._leaving = threading.Event()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="tenure-top", daemon=True)

    def compose(self) -> ComposeResult:
        """Yield the parts of the screen, from top to bottom."""
        for name in ("title", "status", "processes", "trouble", "bytes", "curve"):
            yield Static(id=name, markup=False)
        yield DataTable(id="lines", cursor_type="row", zebra_stripes=True)
        yield Input(id="filter", placeholder="part of a file, function or line of source", compact=True)
        with VerticalScroll(id="notes"):
            yield Static(id="told", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one(DataTable).focus()
        self._ask()
        self._thread.start()

    def on_unmount(self) -> None:
        """Stop looking. The run does not notice."""
        self._leaving.set()
        self._asked.set()

    def on_resize(self, event: Resize) -> None:
        """Make the curve as wide as the screen."""
        self._want(parts=max(10, event.size.width - chart.LABEL - 3))

    def _look_on(self) -> None:
        """Read, compute the screen's data, and show it, again and again."""
        while not self._leaving.is_set():
            self._asked.clear()
            try:
                if not self.paused:
                    self.session.turn()
                picture = self.session.picture(self.wish)
            except TenureError as error:
                self._tell(self._fail, str(error))
                return
            self._tell(self.show, picture)
            if self.paused:
                self._asked.wait()
            elif not self.session.behind:
                self._asked.wait(_PAUSE)

    def _tell(self, call: object, *words: object) -> None:
        if not self._leaving.is_set() and self._loop is not None:
            self._loop.call_soon_threadsafe(call, *words)  # type: ignore[arg-type]

    def _fail(self, text: str) -> None:
        self.exit(return_code=2, message=Text(f"tenure: {safe(text)}"))

    def _ask(self) -> None:
        """Have a look soon."""
        self._asked.set()

    def _want(self, **changes: object) -> None:
        self.wish = dataclasses.replace(self.wish, **changes)  # type: ignore[arg-type]
        self._ask()

    def show(self, picture: Picture) -> None:
        """Put a picture on the screen."""
        if not self.is_running or not self.screen_stack:
            return
        self.picture = picture
        base = self.screen_stack[0]
        told = {
            "title": picture.title,
            "status": ("paused  ·  " if self.paused else "") + _status(picture),
            "trouble": "\n".join(picture.troubles),
            "bytes": headline(picture) + (f";  also {picture.others}" if picture.others else "")
            if picture.device
            else "",
            "curve": "\n".join(chart.draw(picture.curve, picture.seconds, _HEIGHT)) if picture.device else "",
        }
        for name, text in told.items():
            base.query_one(f"#{name}", Static).update(text)
        base.query_one("#trouble").display = bool(picture.troubles)
        base.query_one("#bytes").styles.margin = (0 if picture.troubles else 1, 0, 0, 0)  # small screens have few lines
        self._show_processes(picture)
        self._show_lines(picture)
        self._show_notes(picture.notes)
        self.looks += 1

    def _show_processes(self, picture: Picture) -> None:
        """Show the list of processes, with the selected one in reverse."""
        told = Text()
        if len(picture.processes) > 1:
            told.append(" 0 all ", "reverse" if picture.shown is None else "")
            for at, one in enumerate(picture.processes, 1):
                step = "" if one.step is None else f", step {one.step:,}"
                state = "" if one.state == "running" else f" {one.state}"
                told.append("  ")
                told.append(
                    f" {at} {one.name}{state} {size(one.bytes)}{step} ",
                    "reverse" if picture.shown == one.number else "",
                )
        box = self.screen_stack[0].query_one("#processes", Static)
        box.update(told)
        box.display = bool(told)

    def _show_lines(self, picture: Picture) -> None:
        table: DataTable[Text] = self.screen_stack[0].query_one("#lines", DataTable)
        several = len({row.device for row in picture.rows}) > 1
        heads = [(key, f"{word} ▼" if key == picture.wish.order else word) for key, word in _HEADS.items()]
        heads = [head for head in heads if several or head[0] != "device"]
        cells = [
            [
                Text(size(row.bytes), justify="right"),
                Text(
                    f"{'▲ ' if row.rises else ''}{chart.change(row.growth)}",
                    "bold red" if row.rises else "",
                    justify="right",
                ),
                Text(f"{row.count:,}", justify="right"),
                *([Text(row.device)] if several else []),
                Text(safe(row.place, _PLACE)),
                Text(row.source, "italic"),
            ]
            for row in picture.rows
        ]
        if [key.value for key in table.columns] != [key for key, _ in heads] or picture.wish.order != self._order:
            table.clear(columns=True)
            for key, word in heads:
                table.add_column(Text(word), key=key)
            self._order = picture.wish.order
            self._cells = []
        self._fill(table, cells)

    def _fill(self, table: DataTable[Text], cells: list[list[Text]]) -> None:
        """Change what changed: a table made anew would flicker, and lose the user's place."""
        for at, (row, old) in enumerate(zip(cells, self._cells, strict=False)):
            for column, (cell, before) in enumerate(zip(row, old, strict=True)):
                if cell != before or cell.style != before.style:
                    table.update_cell_at(Coordinate(at, column), cell, update_width=True)
        table.add_rows(cells[len(self._cells) :])
        for _ in range(len(self._cells) - len(cells)):
            table.remove_row(list(table.rows)[-1])
        self._cells = cells

    def _show_notes(self, notes: tuple[Note, ...]) -> None:
        told = Text()
        for note in notes:
            told.append(f"{note.title}\n", "bold red" if note.certain else "bold yellow")
            told.append(f"  {note.message}\n")
            if note.path:
                told.append(f"  retained by {' → '.join(note.path)}\n", "dim")
        told.rstrip()
        base = self.screen_stack[0]
        base.query_one("#told", Static).update(told)
        base.query_one("#notes").display = bool(notes)

    def action_process(self, by: int) -> None:
        """Show the next process; after the last, all together."""
        if self.picture is not None and len(self.picture.processes) > 1:
            numbers = [ALL, *(one.number for one in self.picture.processes)]
            shown = ALL if self.picture.shown is None else self.picture.shown
            self._want(process=numbers[(numbers.index(shown) + by) % len(numbers)])

    def action_choose(self, number: int) -> None:
        """Show a process by its place in the list; 0 shows all together."""
        if self.picture is not None and number <= len(self.picture.processes):
            self._want(process=self.picture.processes[number - 1].number if number else ALL)

    def action_order(self) -> None:
        """Sort the lines by something else."""
        self._want(order=next_order(self.wish.order))

    def action_device(self) -> None:
        """Show the next device, alone; after the last come all."""
        if self.picture is not None:
            names = ["", *self.picture.devices]
            at = names.index(self.wish.device) if self.wish.device in names else 0
            self._want(device=names[(at + 1) % len(names)])

    def action_pause(self) -> None:
        """Hold the picture still, or go on; the run goes on in any case."""
        self.paused = not self.paused
        self._ask()

    def action_filter(self) -> None:
        """Ask for a text that lines must contain."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._want(containing=event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return to the table, with the filter on."""
        event.input.display = bool(event.value)
        self.query_one(DataTable).focus()

    def action_clear(self) -> None:
        """Take the filter away."""
        box = self.query_one("#filter", Input)
        box.value, box.display = "", False
        self.query_one(DataTable).focus()

    def action_help(self) -> None:
        """Say what the keys do, and what is shown."""
        self.push_screen(Help())


def _status(picture: Picture) -> str:
    told = [picture.subject, picture.status, chart.facts(picture.step, picture.rate)]
    if picture.wish.device:
        told.append(f"only {safe(picture.wish.device, 20)}")
    if picture.more:
        told.append(f"{picture.more:,} more lines")
    return "  ·  ".join(part for part in told if part)
