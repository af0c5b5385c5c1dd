"""Tensors in a notebook: what one is, who holds it, what became of it, and what is alive."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.model import Holder, Memory, Remains, Remnant, TensorInfo, size
from tenure.views.notebook.finding import tree
from tenure.views.notebook.page import Named, page, place, shortened, table, told

_MOST = 50  # rows shown of many
_WORDS = {"freed": "freed", "held": "retained", "already": "already released", "cannot": "cannot be released"}


def info(one: TensorInfo, named: Named = shortened) -> str:
    """Return the description of a tensor as HTML."""
    rows = [
        ("state", f"<b>{told(one.state)}</b>" + (f" by {told(one.cause)}" if one.cause else "")),
        ("bytes", size(one.nbytes)),
        ("created", place(one.born, named)),
    ]
    if one.ended is not None:
        rows.append(("released", place(one.ended, named)))
    if one.scope:
        rows.append(("scope", told(one.scope)))
    body = "".join(f'<tr><td class="dim">{name}</td><td>{text}</td></tr>' for name, text in rows)
    return page(f"<b>{told(one.label)}</b><table>{body}</table>")


def holders(found: Sequence[Holder], named: Named = shortened) -> str:
    """Return the holders as HTML: a tree for each, root first."""
    if not found:
        return page("no reference keeps it alive")
    return page(f"<b>{len(found)} {'holder' if len(found) == 1 else 'holders'}</b>", *(_holder(one, named) for one in found[:_MOST]))  # fmt: skip


def remains(one: Remains, named: Named = shortened) -> str:
    """Return the remains as HTML: each buffer with what retains it."""
    if not one.remnants:
        return page("nothing to release: no tensors")
    verb = "freed" if one.done else "would be freed"
    head = f"<b>{size(one.freed_bytes)} {verb}, {size(one.held_bytes)} retained</b>"
    rows = [_remnant(remnant, named) for remnant in one.remnants[:_MOST]]
    rest = f'<div class="dim">and {len(one) - _MOST:,} more</div>' if len(one) > _MOST else ""
    return page(head, table(("bytes", "result", "tensor", "retained by"), rows, (0,)), rest)


def memory(one: Memory, named: Named = shortened) -> str:
    """Live tensors by framework and device."""
    if not one.by:
        return page("no live tensors", _notes(one))
    most = max(usage.nbytes for usage in one.by.values()) or 1
    rows = [
        (
            f"{told(owner)} on {told(device)}",
            f"{usage.tensors:,}",
            f"{usage.buffers:,}",
            size(usage.nbytes),
            f'<span class="bar" style="width:{120 * usage.nbytes // most}px"></span>',
        )
        for (owner, device), usage in sorted(one.by.items(), key=lambda pair: -pair[1].nbytes)
    ]
    return page(table(("", "tensors", "buffers", "bytes", ""), rows, (1, 2, 3)), _notes(one))


def _notes(one: Memory) -> str:
    return "".join(f'<div class="dim">{told(note)}</div>' for note in one.notes)


def _holder(one: Holder, named: Named) -> str:
    links = []
    for at, link in enumerate(one.links):
        kind = f"{one.kind} " if at == 0 and not link.text.startswith(one.kind) else ""
        where = f" ({named(link.site.file)}:{link.site.line})" if link.site is not None else ""
        links.append(f"{kind}{link.text}{where}")
    return tree(links)


def _remnant(one: Remnant, named: Named) -> tuple[str, str, str, str]:
    css = {"freed": "freed", "held": "held", "cannot": "held"}.get(one.fate, "dim")
    reason = f'<div class="dim">{told(one.reason)}</div>' if one.reason else ""
    what = "<br>".join(told(tensor.label) for tensor in one.tensors[:_MOST]) or "buffer"
    who = "".join(_holder(holder, named) for holder in one.holders) if one.fate in ("held", "cannot") else ""
    return size(one.nbytes), f'<span class="{css}">{_WORDS[one.fate]}</span>{reason}', what, who
