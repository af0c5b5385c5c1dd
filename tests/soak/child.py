"""The child process: reads programs (JSON lines), runs each in a world, writes verdicts. A segfault here is the test's."""

import faulthandler
import gc
import importlib
import json
import os
import sys
import traceback
import warnings


def main() -> None:
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a framework prints must not look like a verdict
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    warnings.simplefilter("ignore")
    world = importlib.import_module(sys.argv[1])
    world.warm_up()
    freeze = os.environ.get("TENURE_SOAK_FREEZE") != "0"
    gc.disable()  # collections are steps of the program: when they happen must not depend on who allocates how much
    for line in sys.stdin:
        gc.collect()
        if (
            freeze
        ):  # tenure's walks over the heap then see what the program made, not the frameworks' half million objects
            gc.freeze()
        program = json.loads(line)
        try:
            verdict = world.run(program)
        except BaseException:
            verdict = {"failure": traceback.format_exc(limit=-12), "steps": 0}
        answers.write(json.dumps(verdict) + "\n")


main()
