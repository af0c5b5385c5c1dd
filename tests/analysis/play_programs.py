"""Runs programs in one process: traced, or under torch's own profiler, which tells their peak by another way.

play_programs.py trace FOLDER FILE…    |    play_programs.py measure FILE…    |    play_programs.py tight FOLDER FILE…
"""

import gc
import importlib.util
import json
import sys
from pathlib import Path

import torch

import tenure


def module(file):
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def measured(main):
    """The result, and the most bytes that were allocated at a time, as torch's profiler saw it."""
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = main()
    events = [
        (one.start_ns(), one.nbytes()) for one in profiler.profiler.kineto_results.events() if one.name() == "[memory]"
    ]
    level = most = 0
    for _, size in sorted(events, key=lambda one: one[0]):
        level += size
        most = max(most, level)
    return result, most


if __name__ == "__main__":
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # or each collection would go over all that torch brings
    verb, *rest = sys.argv[1:]
    if verb == "measure":
        print(json.dumps({file: measured(module(file).main) for file in rest}))
    elif verb == "trace":
        for file in rest[1:]:
            main = module(file).main
            gc.collect()  # what the program before kept
            with tenure.trace(Path(rest[0], Path(file).stem)):
                main()
    else:
        for programs in map(module, rest[1:]):
            for name in [
                *(one.__name__ for one in programs.ALL),
                *(["argument"] if hasattr(programs, "argument") else []),
            ]:
                with tenure.trace(Path(rest[0], name)):
                    programs.main(name)
