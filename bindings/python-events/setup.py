"""Builds the extension; where there is no C compiler the package is installed without it, and records nothing."""
import pathlib

from setuptools import Extension, setup

HERE = pathlib.Path(__file__).resolve().parent

setup(
    ext_modules=[
        Extension(
            "strata_events._native",
            ["src/functions.c", "src/module.c", "src/sites.c", "src/spans.c", "src/values.c"],
            include_dirs=[str(HERE.parents[1] / "probe/user/include")],
            depends=["src/native.h", "../loader/strata_loader.h"],
            extra_compile_args=["-O2", "-g", "-std=gnu11", "-fvisibility=hidden", "-Wall", "-Wextra"],
            libraries=["dl"],
            optional=True,
        )
    ]
)
