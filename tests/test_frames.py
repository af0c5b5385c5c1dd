"""Reading the frames of running threads."""

import gc
import threading

import pytest

from tenure import frames


def test_no_collection_starts_while_frames_of_other_threads_are_read():
    collected = []
    gc.callbacks.append(lambda phase, info: collected.append(phase))
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        before, _, after = frames._uncollected(lambda: (len(collected), [[] for _ in range(100)], len(collected)))
        with pytest.raises(ZeroDivisionError):
            frames._uncollected(lambda: 1 / 0)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.pop()
    assert before == after
    assert collected
    assert gc.isenabled()


def test_the_frames_of_another_thread_are_found_to_its_first():
    ready, done = threading.Event(), threading.Event()

    def inner():
        ready.set()
        done.wait()

    thread = threading.Thread(target=lambda: inner())
    thread.start()
    ready.wait()
    try:
        names = {frame.f_code.co_name for frame in frames.running()}
    finally:
        done.set()
        thread.join()
    assert {"inner", "<lambda>", "_bootstrap", "test_the_frames_of_another_thread_are_found_to_its_first"} <= names
