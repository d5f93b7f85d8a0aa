"""The speed of the software GPU and of Numba's CUDA simulator, as one JSON document.

    python3 internal/measure/bench/peer/softspeed.py [ROUNDS] > docs/results/softgpu-speed.json

Run it in the root of the repository. The commands run in turns, ROUNDS times (3), first
on 2 processors, then on all. The last run measures the interpreter on 2, 4, 8, ...
processors. If the simulator is missing (pip install numba), it reports that on standard
error and measures the rest. It stops if a command fails. With 16 processors it takes
about ten minutes.
"""
import json
import os
import subprocess
import sys
import time

from medians import medians

FOLDER = os.path.dirname(os.path.abspath(__file__))


def interpreter(cores, *more):
    return ["go", "test", "-run", "^$", "-bench", "Interpreter", "-benchtime", "0.07s", "-cpu", str(cores), *more, "./softgpu/internal/simt"]


def driver(cores):
    return ["go", "test", "-run", "^$", "-bench", "Driver", "-benchtime", "0.07s", "-cpu", str(cores), "./softgpu"]


def lines(command):
    """Runs a benchmark and returns its output. Without assembly the benchmark is renamed."""
    print("running:", *command, file=sys.stderr)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    if "noasm" in command:
        out = out.replace("BenchmarkInterpreter", "BenchmarkNoasm")
    return out.splitlines()


def run(what, commands, rounds, about):
    got = [line for _ in range(rounds) for c in commands for line in lines(c)]
    machine, results = medians(got)
    about.update(machine)
    return {"what": what, "commands": [" ".join(c) for c in commands], "results": results}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cores = len(os.sched_getaffinity(0))
    os.environ["CGO_ENABLED"] = "0"
    simulator = [[sys.executable, os.path.relpath(os.path.join(FOLDER, "simulator.py"))]]
    if subprocess.run([sys.executable, "-c", "import numba"], stderr=subprocess.DEVNULL).returncode:
        print("missing: numba, whose simulator is the peer", file=sys.stderr)
        simulator = []
    output = lambda *command: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    about = {"go": output("go", "env", "GOVERSION"), "date": time.strftime("%Y-%m-%d", time.gmtime()),
             "commit": output("git", "describe", "--always", "--dirty=+"), "processors": cores,
             "units": "medians; names are those of the benchmarks; Simulator runs smaller sizes of the same kernels on one core, compare threads/s"}
    runs = [run("2 processors, in turns", simulator + [interpreter(2), interpreter(2, "-tags", "noasm"), driver(2)], rounds, about)]
    if cores > 2:
        runs.append(run(f"{cores} processors, in turns", simulator + [interpreter(cores), driver(cores)], rounds, about))
    powers = [1 << i for i in range(1, cores.bit_length()) if 1 << i <= cores]
    runs.append(run("scaling, one round", [interpreter(n) for n in powers], 1, about))
    json.dump({"about": about, "runs": runs}, sys.stdout, indent=1)
    print()


main()
