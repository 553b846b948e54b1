"""One analysis of lttng-analyses, with results for machines: MODULE:FUNCTION OPTION... TRACE.

It is of 2017: what Python has taken from `collections` since is put back.
"""
import collections
import collections.abc
import importlib
import sys

collections.Mapping = collections.abc.Mapping
module, function = sys.argv[1].split(":")
sys.argv = ["lttng-analysis"] + sys.argv[2:]
getattr(importlib.import_module("lttnganalyses.cli." + module), function)()
