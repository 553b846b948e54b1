"""Calls of functions as spans."""

import fnmatch
import sys

from . import _native

_tool = None
_chosen = ()
_excluded = ()


def _name(code):
    """Returns the name of the function that is called, "module.Class.method", or None if it was not asked for."""
    # The frame of the call is the one that called this function.
    module = sys._getframe(1).f_globals.get("__name__")
    if not isinstance(module, str) or module.partition(".")[0] == "strata_events":
        return None
    name = f"{module}.{code.co_qualname}"
    if not any(fnmatch.fnmatchcase(name, pattern) for pattern in _chosen):
        return None
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _excluded):
        return None
    return name[-220:]


def trace_functions(*patterns, exclude=()):
    """Makes each call of the functions that a pattern selects a span: "python:shop.orders.Order.pay".

    Patterns are those of fnmatch, for module, class and function: "shop.*". Other functions cost nothing after their first
    call. trace_functions() without a pattern ends it. Returns True if it works: it needs Python 3.12 and libstrata.
    """
    global _tool, _chosen, _excluded
    if sys.version_info < (3, 12) or _native.availability() is not None:
        return False
    monitoring = sys.monitoring
    events = monitoring.events
    _chosen, _excluded = patterns, tuple(exclude)
    if _tool is None:
        for tool in (4, 3, monitoring.PROFILER_ID):
            if monitoring.get_tool(tool) is None:
                break
        else:
            raise RuntimeError("trace_functions(): sys.monitoring is used by other tools")
        monitoring.use_tool_id(tool, "strata")
        _tool = tool
    else:
        monitoring.set_events(_tool, 0)
    _native.select_functions(_name, monitoring.DISABLE)
    if not patterns:
        monitoring.free_tool_id(_tool)
        _tool = None
        return True
    callbacks = {
        events.PY_START: _native.on_begin,
        events.PY_RESUME: _native.on_begin,
        events.PY_THROW: _native.on_throw,
        events.PY_RETURN: _native.on_end,
        events.PY_YIELD: _native.on_end,
        events.PY_UNWIND: _native.on_unwind,
    }
    wanted = 0
    for one, callback in callbacks.items():
        monitoring.register_callback(_tool, one, callback)
        wanted |= one
    monitoring.set_events(_tool, wanted)
    monitoring.restart_events()
    return True
