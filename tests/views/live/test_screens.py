"""The screens of `tenure top`, key by key, against those that were looked at and found good.

`TENURE_NEW_SCREENS=1` writes them anew: look at what changed before it is kept.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from textual.widgets import DataTable

sys.path.insert(0, str(Path(__file__).parent))
from made import SOURCE, Made, birth, training

from tenure.cli.top import _findings
from tenure.findings import Finding, Place
from tenure.model import Holder, Link, Site
from tenure.trace import suspects, told
from tenure.trace.suspects import Look, Suspect
from tenure.views.live import plain, standing
from tenure.views.live.app import Top
from tenure.views.live.picture import Wish
from tenure.views.live.session import Session

SCREENS = Path(__file__).parent / "screens"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # files are shown as seen from here
    monkeypatch.setattr(standing, "_QUIET", 1e9)  # however slow this machine is
    (tmp_path / "train.py").write_text(SOURCE)
    return tmp_path / "run"


def screen(app):
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips()) + "\n"


def same(name, text):
    file = SCREENS / f"{name}.txt"
    if os.environ.get("TENURE_NEW_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


class Shown:
    """An application under a pilot, and what its screen says when a picture of the present wish is on it."""

    def __init__(self, pilot):
        self.pilot = pilot
        self.app = pilot.app

    async def press(self, *keys):
        await self.pilot.press(*keys)
        return await self.settled()

    async def settled(self):
        """Until what is shown is what was asked for, and twice so: what came before has been drawn by then."""
        for _ in range(600):
            await self.pilot.pause()
            picture = self.app.picture
            if picture is not None and picture.wish == self.app.wish and not self.app.session.behind:
                if not self.app.session._following.over or self.app.session.over:
                    break
            await asyncio.sleep(0.02)
        looks = self.app.looks
        while self.app.looks < looks + 2:
            self.app._ask()
            await asyncio.sleep(0.02)
        await self.pilot.pause()
        # A table measures its columns when nothing else is to do, which on a busy machine is later.
        while any(table._require_update_dimensions for table in self.app.screen.query(DataTable)):
            await self.pilot.pause(0.02)
        await self.pilot.pause(0.02)
        return screen(self.app)


def play(folder, script, size=(110, 30), rank=None):
    async def go():
        app = Top(Session(folder, _findings, rank))
        try:
            async with app.run_test(size=size) as pilot:
                shown = Shown(pilot)
                await shown.settled()
                await script(shown)
            app._thread.join(10)
            assert not app._thread.is_alive()
        finally:
            app.session.close()
        assert app.return_code == 0

    asyncio.run(go())


def leaking(folder, file):
    """What the watch tells of the training, while it goes on."""
    links = (Link("history", "global", Site(file, 4)), Link("[17]", "item"))
    looks = [Look(100 * n, 5 * n, 5 * n, (320 << 10) * n, 5 * n) for n in range(1, 9)]
    facts = {"graph": True, "shape": [], "dtype": "float32"}
    stack = f"{file}:9 in train\n{file}:12 in <module>"
    one = Suspect("torch", "buffers", stack, "", looks, [Holder("global", links)], facts)
    suspects.tell(folder, [one], suspects.GROWING)


def test_a_run_that_goes_on_and_ends(place):
    file = str(place.parent / "train.py")
    made = Made(place, os.getpid(), rank="0")
    training(made, file, 60)

    async def script(shown):
        same("running", await shown.settled())
        leaking(place, file)
        training(made, file, 30, begin=60)
        text = await shown.settled()
        assert "step 89" in text
        same("suspect", text)
        same("sorted by growth", await shown.press("s"))
        await shown.press("slash", *"history", "backspace", "backspace", "backspace", "backspace", "backspace")
        same("filtered", await shown.press("enter"))
        assert "train.py:3" in await shown.press("escape")
        assert screen(shown.app).splitlines()[1].startswith("rank 0")
        await shown.press("p")
        training(made, file, 1, begin=90)
        text = await shown.settled()
        assert text.splitlines()[1].startswith("paused")
        assert "step 89" in text
        assert "step 90" in await shown.press("p")
        same("help", await shown.press("question_mark"))
        await shown.press("x")
        made.close()
        text = await shown.settled()
        assert "finished after 0:09" in text
        same("ended", text)
        await shown.pilot.press("q")

    play(place, script)


def test_ranks_one_by_one(place):
    file = str(place.parent / "train.py")
    ranks = [Made(place, 4000 + at, rank=str(at), world_size="2") for at in range(2)]
    for at, made in enumerate(ranks):
        training(made, file, 40 + at, device=f"cuda:{at}", scale=16 + at)
        made.close()

    async def script(shown):
        same("ranks", await shown.settled())
        same("rank 1", await shown.press("2"))
        assert "rank 0" in (await shown.press("0")).splitlines()[2]
        assert (await shown.press("tab")).splitlines()[1].startswith("rank 0")
        assert (await shown.press("tab")).splitlines()[1].startswith("rank 1")
        assert (await shown.press("tab")).splitlines()[1].startswith("2 processes")
        same("one device", await shown.press("d", "d"))
        await shown.pilot.press("q")

    play(place, script)

    async def chosen(shown):
        assert screen(shown.app).splitlines()[1].startswith("rank 1")
        await shown.pilot.press("q")

    play(place, chosen, rank=1)


def test_a_small_terminal(place):
    made = Made(place)
    training(made, str(place.parent / "train.py"), 60)
    made.close()

    async def script(shown):
        same("small", await shown.settled())
        await shown.pilot.resize_terminal(140, 40)
        assert "history" not in await shown.settled()
        assert max(map(len, screen(shown.app).splitlines())) > 100
        await shown.pilot.press("q")

    play(place, script, size=(64, 18))


HOSTILE = "\x1b[31m\x1b]0;owned\x07[red]not markup[/red]\r\n\x00\u202e<script>"


def test_hostile_texts_are_shown_as_text(place):
    site = f"{HOSTILE}:3 in {HOSTILE}"
    made = Made(place, command=(HOSTILE, "y" * 1_000_000), rank="0")
    made.write(
        birth(0.0, 1, 1024, site, HOSTILE),
        birth(0.0, 2, 512, "x" * 1_000_000, "cpu"),
        birth(0.0, 3, 256, f"{'f' * 1_000_000}:3 in g", "z" * 1_000_000),
    )
    made.close()
    where = Place("holder", HOSTILE, 3, text=HOSTILE)
    told.tell(
        place,
        Finding("TN301", f"[b]{HOSTILE}", "m" * 1_000_000, (where,), evidence={"path": [HOSTILE, "[link=x]"] * 9}),
    )
    (place / "growing-1.jsonl").write_text(
        '{"looks": 1}\n{"looks": [], "holders": [], "stack": 5, "framework": [], "what": "x"}\nnonsense\n'
    )
    (place / "autopsy-1.jsonl").write_text(
        '{"stack": "\\u001b[2J", "step": "1e9", "alive": 1, "why": ""}\n{"stack": "a.py:1 in \\u001b[2J", "step": 1, "alive": 7, "why": "\\u001b[2J[red]"}\n'
    )

    async def script(shown):
        text = await shown.settled()
        assert "[red]not markup[/red]" in text
        assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
        same("hostile", text)
        await shown.press("slash", *"[red")
        assert "not markup" in screen(shown.app)
        await shown.pilot.press("escape", "q")

    play(place, script)
    session = Session(place, _findings)
    session.turn()
    text = plain.render(session.picture(Wish()))
    session.close()
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert max(map(len, text.splitlines())) < 1500
    same("hostile as text", text)


def test_a_run_that_has_not_begun(place):
    place.mkdir()
    (place / "meta.json").write_text(f'{{"pid": {os.getpid()}}}')

    async def script(shown):
        text = await shown.settled()
        assert "waiting: no framework is imported yet" in text
        made = Made(place, os.getpid(), rank="0")
        made.write(birth(0.0, 1, 1 << 20, "train.py:3 in f"))
        assert "1.0 MiB now" in await shown.settled()
        made.close()
        await shown.pilot.press("q")

    play(place, script)


def test_a_damaged_stream_is_said_and_the_others_go_on(place):
    good, bad = Made(place, 4000, rank="0"), Made(place, 4001, rank="1")
    training(good, "train.py", 5)
    training(bad, "train.py", 5)
    good.close()
    bad.close()
    data = bytearray(bad.path.read_bytes())
    data[-100] ^= 1
    bad.path.write_bytes(data)

    async def script(shown):
        text = await shown.settled()
        assert "events-4001.arrows is damaged" in text
        assert "4.3 MiB now" in text
        await shown.pilot.press("q")

    play(place, script)


def test_a_process_that_ends_before_the_others_holds_nothing_any_more(place, monkeypatch):
    from tenure.views.live import session as sessions

    monkeypatch.setattr(sessions, "_TOGETHER", 0.0)
    worker, main = Made(place, 999_999_998), Made(place, os.getpid())
    for made in (worker, main):
        training(made, "train.py", 3)
    worker.close()
    session = Session(place, _findings)
    session.turn()
    session.turn()
    picture = session.picture(Wish())
    assert [(one.state, one.bytes > 0) for one in picture.processes] == [("running", True), ("ended", True)]
    assert picture.bytes == (4 << 20) + (4 << 10) + 3 * (64 << 10)  # of one
    main.abandon()
    session.close()
