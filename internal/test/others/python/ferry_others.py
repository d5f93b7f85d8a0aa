# A plugin of pytest. It writes a line of JSON at the start and at the end of each test to the file that
# FERRY_OTHERS names, and leaves out tests that the file has already.
import faulthandler
import json
import os
import re

import pytest

path = os.environ["FERRY_OTHERS"]
limit = float(os.environ["FERRY_OTHERS_LIMIT"])
lost = re.compile("CUDA_ERROR_(ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|LAUNCH_FAILED|ASSERT|LAUNCH_TIMEOUT)")


def write(**line):
    with open(path, "a") as f:
        f.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(config, items):
    done = set()
    if os.path.exists(path):
        with open(path) as f:
            done = {json.loads(line)["test"] for line in f}
    gone = [i for i in items if i.nodeid in done]
    items[:] = [i for i in items if i.nodeid not in done]
    config.hook.pytest_deselected(items=gone)


def pytest_collectreport(report):
    """Counts a file that cannot be imported as a test: one that needs another package as skipped."""
    if report.failed:
        text = str(report.longrepr)
        write(test=report.nodeid, state="started")
        write(test=report.nodeid, state="skipped" if "ModuleNotFoundError" in text else "failed", text=text[-20000:])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    reports[:] = []
    write(test=item.nodeid, state="started")
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        end(item.nodeid)


reports = []


def pytest_runtest_logreport(report):
    reports.append(report)


def end(test):
    """Writes the worst of what a test, its parts and its set-up say."""
    text = "\n".join(str(r.longrepr) + "\n" + r.capstderr for r in reports if r.failed)
    skipped = [r for r in reports if r.skipped]
    if text:
        write(test=test, state="failed", text=text[-20000:])
    elif any(hasattr(r, "wasxfail") for r in skipped):
        write(test=test, state="xfailed")
    elif any(r.when == "call" and r.passed for r in reports):
        write(test=test, state="passed")
    else:
        write(test=test, state="skipped", text="\n".join(str(r.longrepr) for r in skipped))
    if lost.search(text):
        os._exit(3)  # the device is lost to this process: the next tests run in another


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Stands for a fixture of numba-cuda that is not in its package. Failed checks write no files."""
    request.cls._dump_failed_filechecks = False
