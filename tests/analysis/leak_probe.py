"""Run a leaking program and ask who holds what piles up in it, when most tensors are alive and when it ends.

    leak_probe.py PROGRAM...

Prints one line of JSON: for each program, for some tensors of each pile (those of one class, rank and dtype), the
holders' kinds and names. A program of torch's runs twice, in children: once to find the moment with most tensors, once
to ask. The others pile up what is still there at the end.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import runpy
import sys
import weakref

MOST_PILES = 3
KINDS = {}  # which classes are tensors'
OLD = []  # tensors that were there before the program


def tensors():
    """The tensors born in the program."""
    from tenure import frameworks

    objects = gc.get_objects()
    for kind in set(map(type, objects)).difference(KINDS):
        KINDS[kind] = any(framework.owns(kind) for framework in frameworks.awake())
    old = set(map(id, OLD))
    found = itertools.compress(objects, map(KINDS.__getitem__, map(type, objects)))
    return [thing for thing in found if id(thing) not in old]


def piles():
    found = {}
    for thing in tensors():
        key = (type(thing).__name__, len(thing.shape), str(thing.dtype))
        found.setdefault(key, []).append(weakref.ref(thing))
    thing = None  # or the variable would hold the last one
    large = sorted(found.values(), key=len, reverse=True)
    return [ref for pile in large[:MOST_PILES] if len(pile) > 1 for ref in (pile[0], pile[len(pile) // 2])]


def ask():
    """The holders of an old and a younger tensor of every pile, this program's own frames left out."""
    from tenure import frameworks
    from tenure.analysis.holders import find

    answers = []
    for ref in piles():
        tensor = [ref()]
        if tensor[0] is None:
            continue
        buffers = frameworks.owner(tensor[0]).buffers(tensor[0])
        holders = [holder for holder in find(tensor, buffers) if holder.site is None or holder.site.file != __file__]
        answers.append([(holder.kind, holder.name) for holder in holders])
        tensor.clear()
    return answers


def run(program, moment):
    """Run the program; at its `moment`-th return from one of its functions, and at its end, ask.

    Without a moment, tell the best one.
    """
    seen, best, answers = 0, (-1, 0), []

    def watch(frame, event, argument):
        nonlocal seen, best, answers
        if event != "return" or frame.f_code.co_filename != program:
            return
        seen += 1
        sys.setprofile(None)
        if moment is None:
            best = max(best, (len(tensors()), seen))
        elif seen == moment or frame.f_code.co_name == "<module>":
            answers.extend(ask())
        sys.setprofile(watch)

    gc.disable()
    if moment is None:
        gc.freeze()  # what there is before the program is not looked at again and again
    else:
        OLD.extend(tensors())
    sys.argv = [program]
    sys.setprofile(watch)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sys.setprofile(None)
    return best[1] if moment is None else answers


def in_child(program, moment):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with os.fdopen(writer, "w") as pipe:
            json.dump(run(program, moment), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def main(programs):
    found = {}
    for program in programs:
        moment = 0
        if "/torch/" in program:
            # Imported once, before the forks; it starts no threads by that alone. An optimizer would import dynamo, and
            # the frames of that import would stay until a collection.
            import torch
            import torch._dynamo  # noqa: F401

            moment = in_child(program, None)
        found[program] = in_child(program, moment)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
