"""Tasks of asyncio as spans."""

import asyncio
import weakref

from . import _native


def _name(coroutine):
    return getattr(coroutine, "__qualname__", type(coroutine).__qualname__)


def trace_tasks(loop=None):
    """Makes each task that the event loop starts from now on a span "asyncio:task", from its creation to its end.

    Its fields are the number of the task, the number of the task that started it (0: none), its name, and its coroutine.
    Call it in the loop, or give the loop. A task factory that the loop has already is kept.
    """
    loop = loop or asyncio.get_running_loop()
    if _native.availability() is not None:
        return
    inner = loop.get_task_factory()
    numbers = weakref.WeakKeyDictionary()
    last = 0

    def factory(loop, coroutine, **options):
        nonlocal last
        last += 1
        number = last
        parent = 0
        try:
            parent = numbers.get(asyncio.current_task(loop), 0)
        except RuntimeError:
            pass
        name = options.get("name")
        with_task = _native.async_span(
            "asyncio:task", number=number, parent=parent, name=name or "", coroutine=_name(coroutine)
        )
        with_task.__enter__()
        try:
            task = inner(loop, coroutine, **options) if inner else asyncio.Task(coroutine, loop=loop, **options)
        except BaseException:
            with_task.__exit__(None, None, None)
            raise
        numbers[task] = number
        task.add_done_callback(lambda _: with_task.__exit__(None, None, None))
        return task

    loop.set_task_factory(factory)
