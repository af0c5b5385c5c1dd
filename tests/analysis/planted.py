"""Holders planted on purpose. Each is a generator: it plants, tells the kind and a pattern for the path, and uproots."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import dataclasses
import functools
import gc
import queue
import sys
import threading
import types

GLOBAL = []
CONTEXT = contextvars.ContextVar("CONTEXT")
THREAD_LOCAL = threading.local()
LATER = []


class Trainer:
    shared = None

    def __init__(self):
        self.history = []

    @functools.cached_property
    def costly(self):
        return LATER.pop()

    def step(self):
        return self


class Slotted:
    __slots__ = ("value",)


@dataclasses.dataclass
class Batch:
    image: object
    label: int = 0


Pair = collections.namedtuple("Pair", "left right")

# ---------------------------------------------------------------------------------------------- containers


def global_list(x):
    GLOBAL.extend((0, x))
    del x
    yield "global", r"planted\.GLOBAL\[1\]$"
    GLOBAL.clear()


def nested_containers(x):
    GLOBAL.append({"k": (0, [x])})
    del x
    yield "global", r"GLOBAL\[0\]\['k'\]\[1\]\[0\]$"
    GLOBAL.clear()


def dict_with_int_key(x):
    GLOBAL.append({(1, "a"): x})
    del x
    yield "global", r"GLOBAL\[0\]\[\(1, 'a'\)\]$"
    GLOBAL.clear()


def dict_key(x):
    GLOBAL.append({x: 1})
    del x
    yield "global", r"GLOBAL\[0\]\[key\]$"
    GLOBAL.clear()


def a_set(x):
    GLOBAL.append({x})
    del x
    yield "global", r"GLOBAL\[0\] → \{…\}$"
    GLOBAL.clear()


def a_deque(x):
    GLOBAL.append(collections.deque([1, x]))
    del x
    yield "global", r"GLOBAL\[0\]\[1\]$"
    GLOBAL.clear()


def ordered_dict(x):
    GLOBAL.append(collections.OrderedDict(a=x))
    del x
    yield "global", r"GLOBAL\[0\]\['a'\]$"
    GLOBAL.clear()


def default_dict(x):
    GLOBAL.append(collections.defaultdict(list, a=[x]))
    del x
    yield "global", r"GLOBAL\[0\]\['a'\]\[0\]$"
    GLOBAL.clear()


def a_queue(x):
    GLOBAL.append(queue.Queue())
    GLOBAL[0].put(x)
    del x
    yield "global", r"GLOBAL\[0\]\.queue\[0\]$"
    GLOBAL.clear()


# ---------------------------------------------------------------------------------------------- attributes


def attribute(x):
    GLOBAL.append(Trainer())
    GLOBAL[0].history.append(x)
    del x
    yield "global", r"GLOBAL\[0\]\.history\[0\]$"
    GLOBAL.clear()


def attribute_of_an_object_with_a_dict(x):
    GLOBAL.append(Trainer())
    vars(GLOBAL[0])["last"] = x
    del x
    yield "global", r"GLOBAL\[0\]\.last$"
    GLOBAL.clear()


def slots(x):
    GLOBAL.append(Slotted())
    GLOBAL[0].value = x
    del x
    yield "global", r"GLOBAL\[0\]\.value$"
    GLOBAL.clear()


def a_dataclass(x):
    GLOBAL.append(Batch(x))
    del x
    yield "global", r"GLOBAL\[0\]\.image$"
    GLOBAL.clear()


def named_tuple(x):
    GLOBAL.append(Pair(1, x))
    del x
    yield "global", r"GLOBAL\[0\]\.right$"
    GLOBAL.clear()


def class_attribute(x):
    Trainer.shared = {"k": x}
    del x
    yield "class", r"planted\.Trainer\.shared\['k'\]$"
    Trainer.shared = None


def cached_property(x):
    LATER.append(x)
    del x
    GLOBAL.append(Trainer())
    GLOBAL[0].costly  # noqa: B018
    yield "global", r"GLOBAL\[0\]\.costly$"
    GLOBAL.clear()


def attribute_of_a_module(x):
    module = types.ModuleType("handmade")
    sys.modules["handmade"] = module
    module.cache = [x]
    del x, module
    yield "global", r"handmade\.cache\[0\]$"
    del sys.modules["handmade"]


def exec_namespace(x):
    space = {"__name__": "pasted", "__builtins__": __builtins__, "found": x}
    exec("def f(): return found", space)
    GLOBAL.append(space["f"])
    del x, space
    yield "global", r"pasted\.found$"
    GLOBAL.clear()
    gc.collect()  # the namespace and its function hold each other


# ---------------------------------------------------------------------------------------------- code


def closure(x):
    def outer(y):
        def inner():
            return y

        return inner

    GLOBAL.append(outer(x))
    del x
    yield "global", r"GLOBAL\[0\] → closure cell y of <function closure\.<locals>\.outer\.<locals>\.inner>$"
    GLOBAL.clear()


def closure_over_a_list(x):
    def outer(y):
        return lambda: y

    GLOBAL.append(outer([x]))
    del x
    yield "global", r"GLOBAL\[0\] → closure cell y of <function .*<lambda>> → y\[0\]$"
    GLOBAL.clear()


def default_argument(x):
    def f(a, b=x):
        return b

    GLOBAL.append(f)
    del x, f
    yield "global", r"GLOBAL\[0\] → default b of <function default_argument\.<locals>\.f>$"
    GLOBAL.clear()


def keyword_default(x):
    def f(*, b=x):
        return b

    GLOBAL.append(f)
    del x, f
    yield "global", r"GLOBAL\[0\] → default b of <function keyword_default\.<locals>\.f>$"
    GLOBAL.clear()


def function_attribute(x):
    def f():
        pass

    f.cache = x
    GLOBAL.append(f)
    del x, f
    yield "global", r"GLOBAL\[0\]\.cache$"
    GLOBAL.clear()


def bound_method(x):
    trainer = Trainer()
    trainer.last = x
    GLOBAL.append(trainer.step)
    del x, trainer
    yield "global", r"GLOBAL\[0\] → bound method Trainer\.step → self\.last$"
    GLOBAL.clear()


def partial(x):
    GLOBAL.append(functools.partial(max, 1, x))
    del x
    yield "global", r"GLOBAL\[0\] → partial of .* argument 1$"
    GLOBAL.clear()


def partial_keyword(x):
    def f(a):
        return a

    GLOBAL.append(functools.partial(f, a=x))
    del x
    yield "global", r"GLOBAL\[0\] → partial of .*f\(\) argument a$"
    GLOBAL.clear()


@functools.lru_cache(maxsize=4)
def bounded(value):
    return [LATER.pop()]


@functools.cache
def unbounded(value):
    return {"k": LATER.pop()}


@functools.lru_cache(maxsize=4)
def takes_tensor(value):
    return 0


def lru_cache(x):
    LATER.append(x)
    del x
    bounded(1)
    yield "global", r"planted\.bounded → lru_cache of bounded\(\)\[0\]$"
    bounded.cache_clear()


def cache(x):
    LATER.append(x)
    del x
    unbounded(1)
    yield "global", r"planted\.unbounded → lru_cache of unbounded\(\)\['k'\]$"
    unbounded.cache_clear()


def cache_argument(x):
    takes_tensor(x)
    del x
    yield "global", r"planted\.takes_tensor → lru_cache of takes_tensor\(\) argument"
    takes_tensor.cache_clear()


def generator(x):
    def batches(y):
        local = y
        del y
        yield 1
        yield local

    GLOBAL.append(batches(x))
    next(GLOBAL[0])
    del x
    yield "global", r"GLOBAL\[0\] → generator .*batches\(\) local local$"
    GLOBAL.clear()


def generator_with_cell(x):
    def batches(y):
        yield lambda: y

    GLOBAL.append(batches(x))
    next(GLOBAL[0])
    del x
    yield "global", r"GLOBAL\[0\] → generator .*batches\(\) local y$"
    GLOBAL.clear()


def coroutine(x):
    @types.coroutine
    def pause():
        yield

    async def work(y):
        mine = [y]
        del y
        await pause()
        return mine

    GLOBAL.append(work(x))
    GLOBAL[0].send(None)
    del x
    yield "global", r"GLOBAL\[0\] → coroutine .*work\(\) local mine\[0\]$"
    GLOBAL.pop().close()


def async_generator(x):
    async def produce(y):
        mine = y
        del y
        yield 1
        yield mine

    GLOBAL.append(produce(x))
    del x
    try:
        GLOBAL[0].asend(None).send(None)
    except StopIteration:
        pass
    yield "global", r"GLOBAL\[0\] → async generator .*produce\(\) local mine$"
    try:
        GLOBAL.pop().aclose().send(None)
    except StopIteration:
        pass


def task(x):
    loop = asyncio.new_event_loop()

    async def work(y):
        mine = y
        del y
        await asyncio.sleep(60)
        return mine

    GLOBAL.append(loop.create_task(work(x)))
    del x
    loop.run_until_complete(asyncio.sleep(0))
    yield "global", r"coroutine .*work\(\) local mine$"
    GLOBAL.pop().cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def context_variable(x):
    GLOBAL.append(contextvars.copy_context())
    GLOBAL[0].run(CONTEXT.set, x)
    del x
    yield "global", r"GLOBAL\[0\] → context variable CONTEXT$"
    GLOBAL.clear()


def thread_local(x):
    THREAD_LOCAL.mine = [x]
    del x
    yield "global", r"planted\.THREAD_LOCAL\.mine\[0\]$"
    del THREAD_LOCAL.mine


# ---------------------------------------------------------------------------------------------- exceptions


def fail(y):
    mine = y
    del y
    raise ValueError(len(mine))


def kept_exception(x):
    try:
        fail(x)
    except ValueError as error:
        GLOBAL.append(error)
    del x
    yield "global", r"GLOBAL\[0\] → exception ValueError → traceback frame fail\(\) local mine$"
    GLOBAL.clear()


def exception_argument(x):
    GLOBAL.append(KeyError("k", x))
    del x
    yield "global", r"GLOBAL\[0\] → exception KeyError\.args\[1\]$"
    GLOBAL.clear()


def exception_context(x):
    try:
        try:
            fail(x)
        except ValueError:
            raise KeyError from None
    except KeyError as error:
        GLOBAL.append(error)
    del x
    yield "global", r"exception KeyError\.__context__ → exception ValueError → traceback frame fail\(\) local mine$"
    GLOBAL.clear()


def last_value(x):
    try:
        fail(x)
    except ValueError as error:
        sys.last_value = error
    del x
    yield "exception", r"sys\.last_value → exception ValueError → traceback frame fail\(\) local mine$"
    del sys.last_value


def kept_frame(x):
    def f(y):
        mine = y
        del y
        return sys._getframe(), len(mine)

    GLOBAL.append(f(x)[0])
    del x
    yield "global", r"GLOBAL\[0\] → frame .*f\(\) local mine$"
    GLOBAL.clear()


# ---------------------------------------------------------------------------------------------- threads, shells


def thread_argument(x):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="loader", kwargs={})
    thread.batch = [x]
    del x
    thread.start()
    LATER.append((stop, thread))
    del thread
    yield "thread", r"^loader\.batch\[0\]$"
    stop, thread = LATER.pop()
    stop.set()
    thread.join()


def variable_of_another_thread(x):
    ready, stop = threading.Event(), threading.Event()

    def work(box):
        mine = box.pop()
        ready.set()
        stop.wait()
        return mine

    thread = threading.Thread(target=work, name="worker", args=([x],))
    del x
    thread.start()
    ready.wait()
    yield "local", r"^thread worker → mine$"
    stop.set()
    thread.join()


def ipython_output(x):
    shell = types.SimpleNamespace(user_ns={"_oh": {3: x}, "Out": None})
    shell.user_ns["Out"] = shell.user_ns["_oh"]
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: shell
    sys.modules["IPython"] = module
    del x, module
    yield "global", r"^Out\[3\]$"
    del sys.modules["IPython"]
    shell.user_ns.clear()


EVERYWHERE = (
    global_list, nested_containers, dict_with_int_key, dict_key, a_set, a_deque, ordered_dict, default_dict, a_queue,
    attribute, attribute_of_an_object_with_a_dict, slots, a_dataclass, named_tuple, class_attribute, cached_property,
    attribute_of_a_module, exec_namespace,
    closure, closure_over_a_list, default_argument, keyword_default, function_attribute, bound_method, partial,
    partial_keyword, lru_cache, cache, cache_argument, generator, generator_with_cell, coroutine, async_generator, task,
    context_variable, thread_local,
    kept_exception, exception_argument, exception_context, last_value, kept_frame,
    thread_argument, variable_of_another_thread, ipython_output,
)  # fmt: skip
