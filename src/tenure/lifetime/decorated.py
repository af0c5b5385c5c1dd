"""Functions, coroutines and generators whose body is a scope: what they return or yield escapes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def decorate(function: Callable[..., Any], name: str, cap: int | None) -> Any:
    """A function of the same kind and signature that runs `function` in a fresh scope each time."""
    if inspect.isasyncgenfunction(function):
        wrapped = _async_generator(function, name, cap)
    elif inspect.isgeneratorfunction(function):
        wrapped = _generator(function, name, cap)
    elif inspect.iscoroutinefunction(function):
        wrapped = _coroutine(function, name, cap)
    else:
        wrapped = _function(function, name, cap)
    return functools.wraps(function)(wrapped)


def _function(function: Callable[..., Any], name: str, cap: int | None) -> Callable[..., Any]:
    from tenure.lifetime.scope import Scope

    def run(*args: Any, **kwargs: Any) -> Any:
        with Scope(name, cap) as scope:
            result = function(*args, **kwargs)
            scope.hand_out(result)
            return result

    return run


def _coroutine(function: Callable[..., Any], name: str, cap: int | None) -> Callable[..., Any]:
    from tenure.lifetime.scope import Scope

    async def run(*args: Any, **kwargs: Any) -> Any:
        with Scope(name, cap) as scope:
            result = await function(*args, **kwargs)
            scope.hand_out(result)
            return result

    return run


def _generator(function: Callable[..., Any], name: str, cap: int | None) -> Callable[..., Any]:
    from tenure.lifetime.scope import Scope

    def run(*args: Any, **kwargs: Any) -> Any:
        with Scope(name, cap) as scope:
            inner = function(*args, **kwargs)
            box: list[Any] = []  # emptied as it is yielded, so that a suspended generator holds nothing
            try:
                box.append(next(inner))
                while True:
                    scope.hand_out(box[0])
                    try:
                        sent = yield box.pop()
                    except GeneratorExit:
                        inner.close()
                        raise
                    except BaseException as error:  # noqa: BLE001 - whatever the consumer throws is the generator's
                        box.append(inner.throw(error))
                    else:
                        box.append(inner.send(sent))
                        del sent
            except StopIteration as stop:
                scope.hand_out(stop.value)
                return stop.value

    return run


def _async_generator(function: Callable[..., Any], name: str, cap: int | None) -> Callable[..., Any]:
    from tenure.lifetime.scope import Scope

    async def run(*args: Any, **kwargs: Any) -> Any:
        with Scope(name, cap) as scope:
            inner = function(*args, **kwargs)
            box: list[Any] = []
            try:
                box.append(await anext(inner))
                while True:
                    scope.hand_out(box[0])
                    try:
                        sent = yield box.pop()
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 - whatever the consumer throws is the generator's
                        box.append(await inner.athrow(error))
                    else:
                        box.append(await inner.asend(sent))
                        del sent
            except StopAsyncIteration:
                return

    return run
