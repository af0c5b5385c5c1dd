"""The scan in Python, where there is no compiler: slower by a hundred times, and the same to the byte.

It has the functions of native/trace_scan.cpp. A life is a dict; see `Life` in native/trace_lives.h.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from typing import Any

from tenure.trace.streams import RANGES

NEVER = (1 << 63) - 1
_BIRTH, _USE, _END, _KIND, _STEP = 0, 1, 2, 3, 5
_LONG = 64
_PARTS = 128
_DEVICES = 64
_CODES = {
    "bytes": "q", "born": "q", "last_use": "q", "ended": "q", "buffer": "I", "batch": "I", "last_batch": "I",
    "site": "i", "step": "i", "scope": "i", "device": "b", "kind": "b",
}  # fmt: skip


class _Curve:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.level = [0] * _DEVICES
        self.most = [0] * _DEVICES
        self.at = [0] * _DEVICES
        self.bins: list[list[list[int]]] = [[] for _ in range(_DEVICES)]
        self.shift = self.late = 0
        self._settled = -1
        self._waiting: list[tuple[int, int, int]] = []

    def add(self, time: int, change: int, device: int) -> None:
        if time < self._settled:
            self.late += 1
            time = self._settled
        self._waiting.append((time, change, device))

    def settle(self, until: int) -> None:
        if not self._waiting or until <= self._settled:
            return
        ready = sorted(one for one in self._waiting if one[0] < until)
        self._waiting = [one for one in self._waiting if one[0] >= until]
        for at, (time, change, device) in enumerate(ready):
            self.level[device] += change
            # Moments have one sum: the last change of a moment tells it, for each device that changed.
            if at + 1 == len(ready) or ready[at + 1][0] != time:
                first = at
                while first and ready[first - 1][0] == time:
                    first -= 1
                for one in sorted({ready[place][2] for place in range(first, at + 1)}):
                    self._tell(one, time)
        self._settled = until

    def _tell(self, device: int, time: int) -> None:
        now = self.level[device]
        if now > self.most[device]:
            self.most[device], self.at[device] = now, time
        if not self.limit:
            return
        bins, index = self.bins[device], time >> self.shift
        if bins and bins[-1][0] == index:
            most, when = max((bins[-1][1], -bins[-1][3]), (now, -time))
            bins[-1][1:] = [most, now, -when]
            return
        bins.append([index, now, now, time])
        if len(bins) > self.limit:
            self._coarsen()

    def _coarsen(self) -> None:
        self.shift += 1
        for device, bins in enumerate(self.bins):
            kept: list[list[int]] = []
            for index, most, last, when in bins:
                if kept and kept[-1][0] == index >> 1:
                    high, at = max((kept[-1][1], -kept[-1][3]), (most, -when))
                    kept[-1][1:] = [high, last, -at]
                else:
                    kept.append([index >> 1, most, last, when])
            self.bins[device] = kept


class _Scan:
    def __init__(self, bins: int, until: int, several: bool) -> None:
        self.all = _Curve(bins)
        self.each: dict[int, _Curve] = {}
        self.until = until if until >= 0 else NEVER
        self.several = several and until < 0
        self.living: dict[int, dict[int, dict[str, int]]] = {}
        self.longs: list[tuple[int, dict[str, int]]] = []
        self.ended: list[tuple[int, dict[str, int]]] | None = None
        self.sites: list[list[float]] = []
        self.growth: list[tuple[int, int, int]] = []
        self.steps: dict[int, list[int]] = {}
        self.first, self.last, self.births, self.bytes = NEVER, -1, 0, 0


def scan(bins: int, until: int, several: bool) -> Any:  # noqa: D103 - each is told in native/trace_scan_python.h
    return _Scan(bins, until, several)


def feed(state: Any, process: int, number: int, batch: Any, places: tuple[int, ...], maps: tuple[Any, ...]) -> int:  # noqa: D103
    read = [_column(batch, place) for place in places]
    events, devices, sites, kinds, scopes = maps
    living = state.living.setdefault(process, {})
    own = state.each.setdefault(process, _Curve(0)) if state.several else None
    high = -1
    for time, event, buffer, size, device, site, kind, last_use, step, scope in zip(*read, strict=True):
        moment = time or 0
        if not RANGES["time"][0] <= moment <= RANGES["time"][1]:
            raise ValueError("an impossible time")
        high, state.first = max(high, moment), min(state.first, moment)
        what = _word(events, event)
        if what == _STEP and state.until == NEVER:
            state.steps.setdefault(process, []).append(moment)
        if what not in (_BIRTH, _USE, _END, _KIND) or buffer is None:
            continue
        if what == _BIRTH:
            if state.until != NEVER and moment > state.until:
                continue
            if not RANGES["bytes"][0] <= (size or 0) <= RANGES["bytes"][1]:
                raise ValueError("an impossible number of bytes")
            living[buffer] = {
                "bytes": size or 0, "born": moment, "last_use": 0, "ended": NEVER, "buffer": buffer, "batch": number,
                "last_batch": number, "site": _word(sites, site), "step": _or(step),
                "scope": _word(scopes, scope), "device": min(max(_word(devices, device), 0), _DEVICES - 1),
                "kind": _word(kinds, kind),
            }  # fmt: skip
            if state.until == NEVER:
                _born(state, own, living[buffer])
        elif (life := living.get(buffer)) is not None:
            life["last_use"] = max(life["last_use"], last_use or 0)
            found = _word(kinds, kind)
            life["kind"] = life["kind"] if found < 0 else found
            life["last_batch"] = number
            if what == _END:
                _ended(state, own, process, life, moment, step)
    state.last = max(state.last, high)
    return high


def _or(value: int | None) -> int:
    return -1 if value is None else value


def _born(state: _Scan, own: _Curve | None, life: dict[str, int]) -> None:
    state.births += 1
    state.bytes += life["bytes"]
    if life["site"] >= 0:
        while len(state.sites) <= life["site"]:
            state.sites.append([0, 0, 0, 0, 0, 0.0])
        for at, change in enumerate((1, life["bytes"], 1, life["bytes"])):
            state.sites[life["site"]][at] += change
        state.sites[life["site"]][4] = max(state.sites[life["site"]][4], life["born"])
        if life["step"] >= 0:
            state.growth.append((life["site"], life["step"], life["bytes"] + 1))
    _change(state, own, life["born"], life["bytes"], life["device"])


def _ended(state: _Scan, own: _Curve | None, process: int, life: dict[str, int], time: int, step: int | None) -> None:
    life["ended"] = time
    if state.until != NEVER:
        if time <= state.until:
            del state.living[process][life["buffer"]]
        return
    del state.living[process][life["buffer"]]
    if life["last_batch"] - life["batch"] >= _LONG:
        state.longs.append((process, life))
    if state.ended is not None:
        state.ended.append((process, life))
    if life["site"] >= 0:
        site = state.sites[life["site"]]
        site[2] -= 1
        site[3] -= life["bytes"]
        site[5] += float(life["bytes"]) * float(time - max(life["last_use"], life["born"]))
        if step is not None:
            state.growth.append((life["site"], step, -life["bytes"] - 1))
    _change(state, own, time, -life["bytes"], life["device"])


def _change(state: _Scan, own: _Curve | None, time: int, change: int, device: int) -> None:
    if change:
        if own is not None:
            own.add(time, change, device)
        state.all.add(time, change, device)


def _word(numbers: Any, value: int | None) -> int:
    if value is None:
        return -1
    if not 0 <= value < len(numbers):
        raise ValueError("a string that is not in the string table")
    number: int = numbers[value]
    return number


def _column(batch: Any, place: int) -> list[Any]:
    if place < 0:
        return [None] * batch.num_rows
    column = batch.column(place)
    found: list[Any] = (column.cast("int64") if "timestamp" in str(column.type) else column).to_pylist()
    return found


def settle(state: Any, process: int, own: int, until: int) -> None:  # noqa: D103
    if process in state.each:
        state.each[process].settle(own)
    state.all.settle(until)


def finish(state: Any) -> None:  # noqa: D103
    for curve in (*state.each.values(), state.all):
        curve.settle(NEVER)


def _lives(lives: list[dict[str, int]]) -> dict[str, bytes]:
    return {name: array(code, [life[name] for life in lives]).tobytes() for name, code in _CODES.items()}


def alive(state: Any, process: int) -> dict[str, bytes]:  # noqa: D103
    return _lives(list(state.living.get(process, {}).values()))


def keep(state: Any, process: int) -> bytes:  # noqa: D103
    return json.dumps(list(state.living.get(process, {}).values())).encode()


def restore(state: Any, process: int, kept: bytes) -> None:  # noqa: D103
    state.living[process] = {life["buffer"]: life for life in json.loads(kept)}
    if state.until == NEVER:
        for life in state.living[process].values():
            while len(state.sites) <= life["site"]:
                state.sites.append([0, 0, 0, 0, 0, 0.0])
            _change(state, None, life["born"], life["bytes"], life["device"])


def longs(state: Any) -> dict[str, bytes]:  # noqa: D103
    return _of_processes(state.longs)


def _of_processes(all_: list[tuple[int, dict[str, int]]]) -> dict[str, bytes]:
    found = _lives([life for _, life in all_])
    return {**found, "process": array("I", [process for process, _ in all_]).tobytes()}


def ended(state: Any) -> dict[str, bytes]:  # noqa: D103
    found, state.ended = state.ended or [], []
    return _of_processes(found)


def peaks(state: Any, process: int) -> list[tuple[int, int, int]]:  # noqa: D103
    curve = state.each.get(process, state.all)
    return list(zip(curve.most, curve.at, curve.level, strict=True))


def bins(state: Any, device: int) -> tuple[int, bytes, bytes, bytes]:  # noqa: D103
    index, most, last, _ = zip(*state.all.bins[device], strict=True) if state.all.bins[device] else ((),) * 4
    return state.all.shift, array("q", index).tobytes(), array("q", most).tobytes(), array("q", last).tobytes()


def moments(state: Any, device: int) -> bytes:  # noqa: D103
    return array("q", [when for *_, when in state.all.bins[device]]).tobytes()


def places(moments: Any, times: Any, after: bool) -> bytes:  # noqa: D103
    known, find = array("q", bytes(moments)), bisect_right if after else bisect_left
    return array("i", (find(known, time) for time in array("q", bytes(times)))).tobytes()


def lay(sums: Any, width: int, rows: Any, begin: Any, to: Any, amounts: Any) -> None:  # noqa: D103
    columns = (array("i", bytes(rows)), array("i", bytes(begin)), array("i", bytes(to)), array("q", bytes(amounts)))
    for row, first, last, amount in zip(*columns, strict=True):
        if row >= 0 and first < last:
            if first < 0 or last >= width or (row + 1) * width > len(sums):
                raise ValueError("rows or places that do not exist")
            sums[row * width + first] += amount
            sums[row * width + last] -= amount


def sites(state: Any) -> dict[str, bytes]:  # noqa: D103
    columns = list(zip(*state.sites, strict=True)) or [()] * 6
    codes = (("births", "q"), ("bytes", "q"), ("count", "q"), ("alive", "q"), ("last", "q"), ("drag", "d"))
    return {name: array(code, values).tobytes() for (name, code), values in zip(codes, columns, strict=True)}


def growth(state: Any) -> tuple[int, int, bytes, bytes]:  # noqa: D103
    last = max((step for _, step, _ in state.growth), default=-1)
    width = 1
    while last // width >= _PARTS:
        width *= 2
    size = (max((site for site, _, _ in state.growth), default=-1) + 1) * _PARTS
    count, total = array("q", bytes(8 * size)), array("q", bytes(8 * size))
    for site, step, change in state.growth:
        at = site * _PARTS + step // width
        count[at] += 1 if change > 0 else -1
        total[at] += change - 1 if change > 0 else change + 1
    return width, last, count.tobytes(), total.tobytes()


def steps(state: Any, process: int) -> bytes:  # noqa: D103
    return array("q", state.steps.get(process, [])).tobytes()


def facts(state: Any) -> tuple[int, int, int, int, int]:  # noqa: D103
    late = state.all.late + sum(curve.late for curve in state.each.values())
    return state.first, state.last, state.births, state.bytes, late
