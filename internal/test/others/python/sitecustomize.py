# Python imports this file as it starts, also in processes that tests start. It lets numba-cuda run with
# PTX, unchanged, where parts of a usual installation are missing.
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
import unittest


class NumbaCuda(importlib.abc.MetaPathFinder):
    """Finds numba.cuda in the package numba_cuda, as a file *.pth of numba-cuda does in site-packages."""

    def find_spec(self, name, path=None, target=None):
        if name != "numba.cuda":
            return None
        base = importlib.util.find_spec("numba_cuda").submodule_search_locations[0]
        return importlib.machinery.PathFinder.find_spec(name, [os.path.join(base, "numba")])


def hide_linker():
    """Hides nvJitLink, which makes machine code. cuda.core then links by the driver."""
    from cuda import pathfinder

    load = pathfinder.load_nvidia_dynamic_lib

    def without_linker(name):
        if name == "nvJitLink":
            raise pathfinder.DynamicLibNotFoundError("nvJitLink is hidden")
        return load(name)

    pathfinder.load_nvidia_dynamic_lib = without_linker


def answer_version():
    """Answers for libcudart, where it is missing, what numba-cuda asks it as it is imported."""
    from cuda.bindings import runtime

    try:
        runtime.getLocalRuntimeVersion()
    except RuntimeError:
        runtime.getLocalRuntimeVersion = lambda: (runtime.cudaError_t.cudaSuccess, 13000)


def no_filecheck():
    """Skips tests that need the package filecheck, where it is missing."""

    def skip(*args, **kwargs):
        raise unittest.SkipTest("the package filecheck is missing")

    for module, names in {
        "filecheck": (), "filecheck.matcher": ("Matcher",), "filecheck.options": ("Options",),
        "filecheck.parser": ("Parser", "pattern_for_opts"), "filecheck.finput": ("FInput",),
    }.items():
        m = types.ModuleType(module)
        for name in names:
            setattr(m, name, skip)
        sys.modules[module] = m


def start():
    if importlib.util.find_spec("numba_cuda") is None:
        return
    sys.meta_path.insert(0, NumbaCuda())
    hide_linker()
    answer_version()
    if importlib.util.find_spec("filecheck") is None:
        no_filecheck()
    numpy = importlib.import_module("numpy")
    if not hasattr(numpy, "row_stack"):  # NumPy 2.5 has dropped it
        numpy.row_stack = numpy.vstack


start()
