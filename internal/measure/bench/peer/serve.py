"""Many goroutines at once, beside threads in C++: runs internal/measure/bench/serve/cell and
serve.cu in turns, each cell in a process of its own, and prints tables of medians.

    CGO_ENABLED=0 go build -ldflags "-X main.commit=$(git describe --always --dirty=+)" \\
        -o serve_new ./internal/measure/bench/serve/cell
    sh internal/measure/bench/peer/serve_old.sh 324e96f serve_old
    nvcc -O3 -std=c++17 -o serve_c internal/measure/bench/peer/serve.cu -lpthread
    python3 internal/measure/bench/peer/serve.py --new serve_new --old serve_old --c serve_c \\
        --lines out.jsonl --json out.json

--old and --c can be left out. C runs with default and with blocking synchronization. --cells
takes patterns, such as "pinned,4096,*". --quick is a short check of everything. Every line
of a program is added to the file of --lines at once, so that a run that is interrupted is not
lost. Files of several runs are put together without measuring:

    python3 internal/measure/bench/peer/serve.py --merge a.jsonl b.jsonl --json out.json
"""
import argparse
import datetime
import fnmatch
import json
import os
import random
import statistics
import subprocess
import sys

GOROUTINES = [1, 4, 16, 64, 256]
SIZES = [("pinned", 4096), ("pinned", 65536), ("pinned", 1 << 20), ("pageable", 65536), ("pageable", 1 << 20),
         ("pool", 4096), ("pool", 65536)]
CELLS = [f"{kind},{size},{n}" for kind, size in SIZES for n in GOROUTINES] + ["pinned,4096,16,gc", "pinned,4096,64,gc"]
QUICK = ["pinned,4096,1", "pinned,4096,64", "pageable,65536,16", "pool,4096,16", "pinned,4096,16,gc"]
FIGURES = ["per_second", "p50_us", "p99_us", "p999_us", "longest_us", "fewest", "most", "fairness", "cpu_per_second",
           "allocs_per_request", "gcs", "threads"]
ORDER = ["new", "old", "C", "C blocking"]


def programs(o):
    """Returns the command of each program by its name."""
    path = lambda p: os.path.abspath(p)
    found = {"new": [path(o.new)]}
    if o.old:
        found["old"] = [path(o.old)]
    if o.c:
        found["C"] = [path(o.c), "--sync", "auto"]
        found["C blocking"] = [path(o.c), "--sync", "blocking"]
    return {name: command for name, command in found.items() if name not in o.without}


def can(program, cell):
    """Reports whether a program can measure a cell."""
    return not program.startswith("C") or not (cell.startswith("pool") or cell.endswith(("gc", "context", "save")))


def measure(o):
    """Measures all cells in rounds, in a random order of programs, and returns the lines."""
    cells = chosen(o)
    commands, lines = programs(o), []
    total = o.rounds * sum(can(p, c) for c in cells for p in commands)
    for number in range(o.rounds):
        for cell in cells:
            for name in random.sample(list(commands), len(commands)):
                if not can(name, cell):
                    continue
                device = ["--device", o.device] if o.device and not name.startswith("C") else []
                line = run(commands[name] + device + ["--time", o.time, cell])
                line.update(name=name, round=number)
                lines.append(line)
                print(f"{len(lines)} of {total}: {cell} {name}: {line.get('per_second', 0):.0f}/s {line.get('error', '')}", file=sys.stderr)
                if o.lines:
                    with open(o.lines, "a") as f:
                        f.write(json.dumps(line) + "\n")
    return lines


def chosen(o):
    """Returns the cells to measure. A pattern that is no pattern is a cell of its own."""
    cells = QUICK if o.quick else CELLS
    if not o.cells:
        return cells
    some = []
    for p in o.cells:
        some += [c for c in CELLS if fnmatch.fnmatch(c, p)] or [p]
    return list(dict.fromkeys(some))


def run(command):
    """Runs a program for one cell and returns its line, or the error."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"cell": command[-1], "error": f"status {done.returncode}: {done.stderr.strip()[-300:]}"}


def medians(lines):
    """Returns the medians of the figures by cell and program, and the errors."""
    values, errors = {}, []
    for line in lines:
        if "error" in line:
            errors.append(f"{line['cell']} {line['name']}: {line['error']}")
            continue
        line["fairness"] = line["fewest"] / line["most"] if line["most"] else 0
        row = values.setdefault((line["cell"], line["name"]), {})
        for f in FIGURES:
            if f in line:
                row.setdefault(f, []).append(line[f])
    rows = {key: {f: float(f"{statistics.median(v):.5g}") for f, v in row.items()} | {"runs": len(row["per_second"])}
            for key, row in values.items()}
    order = lambda key: (CELLS.index(key[0]) if key[0] in CELLS else len(CELLS), key[0], ORDER.index(key[1]))
    return {key: rows[key] for key in sorted(rows, key=order)}, errors


def table(rows):
    """Returns the table of all figures, in Markdown."""
    head = "| request | goroutines | | requests/s | p50 us | p99 us | p99.9 us | longest us | fewest to most | CPU | allocations | threads |"
    out = [head, "|" + "---|" * (head.count("|") - 1)]
    for (cell, name), r in rows.items():
        kind, size, n, *variant = cell.split(",")
        what = " ".join([kind, amount(int(size))] + variant)
        allocs = f"{r['allocs_per_request']:.3f}" if "allocs_per_request" in r else ""
        out.append(f"| {what} | {n} | {name} | {r['per_second']:.0f} | {r['p50_us']:.1f} | {r['p99_us']:.0f} | {r['p999_us']:.0f} | "
                   f"{r['longest_us']:.0f} | {r['fewest']:.0f}-{r['most']:.0f} | {r['cpu_per_second']:.2f} | {allocs} | {r['threads']:.0f} |")
    return "\n".join(out)


def amount(n):
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB" if n >= 1024 else f"{n} bytes"


def goals(rows):
    """Returns a list of (cell, what, value, bound, met). A bound with < is a most, others a least."""
    found = []

    def check(cell, what, value, least=None, most=None):
        if value is not None:
            bound = least if most is None else most
            met = value >= bound if most is None else value <= bound
            found.append((cell, what, value, ("< " if most is not None else "> ") + f"{bound:.3g}", met))

    def ratio(cell, f, name="C", of=None, own="new"):
        a, b = rows.get((cell, own)), rows.get((of or cell, name))
        return a[f] / b[f] if a and b and b.get(f) else None

    for (cell, name), r in rows.items():
        if name != "new":
            continue
        kind, size, n, *variant = cell.split(",")
        n = int(n)
        if variant == ["gc"]:
            check(cell, "p99, of that without gc", ratio(cell, "p99_us", "new", cell[:-3]), most=2)
        if "allocs_per_request" in r:
            check(cell, "allocations a request", r["allocs_per_request"], most=0.01)
        if variant:
            continue
        if kind == "pinned":
            check(cell, "requests/s, of C", ratio(cell, "per_second"), least=0.95)
            check(cell, "p99, of C", ratio(cell, "p99_us"), most=1.05)
            check(cell, "p99.9, of C", ratio(cell, "p999_us"), most=1.05)
            c = rows.get((cell, "C"))
            if n > 1:
                check(cell, "fewest, of most", r["fairness"], least=min(0.7, c["fairness"] if c else 0.7))
            if n == 1:
                check(cell, "p50, of old", ratio(cell, "p50_us", "old"), most=1)
            if n == 64 and int(size) >= 65536:
                check(cell, "CPU, of C", ratio(cell, "cpu_per_second"), most=0.5)
            if n == 4:
                check(cell, "CPU, of old", ratio(cell, "cpu_per_second", "old"), most=1)
        elif kind == "pageable" and n >= 4:
            best = max(x["per_second"] for (c, p), x in rows.items() if p == "new" and c.startswith(f"pageable,{size},"))
            check(cell, "requests/s, of its best", r["per_second"] / best, least=0.9)
            check(cell, "requests/s, of C", ratio(cell, "per_second"), least=2)
        elif kind == "pool":
            pinned = f"pinned,{size},{n}"
            check(cell, "requests/s, of pinned", ratio(cell, "per_second", "new", pinned), least=0.8)
            if n > 1:
                check(cell, "fairness, of pinned", ratio(cell, "fairness", "new", pinned), least=0.95)
    return found


def judged(found):
    """Returns the table of goals that are not met, in Markdown."""
    met = sum(g[-1] for g in found)
    out = [f"{met} of {len(found)} goals are met. The others:", "", "| cell | what | value | goal |", "|---|---|---|---|"]
    return "\n".join(out + [f"| {cell} | {what} | {value:.3g} | {bound} |" for cell, what, value, bound, ok in found if not ok])


def about(lines):
    """Returns where the lines were measured."""
    good = [x for x in lines if "error" not in x]
    go = [x for x in good if x["name"] in ("new", "old")]
    pick = lambda key, some: ", ".join(sorted({str(x[key]) for x in some if x.get(key)}))
    return {
        "device": pick("device", good), "driver": pick("driver", good) or smi(), "processors": pick("processors", good),
        "cuda": pick("cuda", good), "go": pick("go", go), "commit": pick("commit", [x for x in go if x["name"] == "new"]),
        "old_commit": pick("commit", [x for x in go if x["name"] == "old"]),
        "seconds": pick("seconds", good), "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def smi():
    """Returns the version of the driver by nvidia-smi, "" if there is none."""
    try:
        return subprocess.check_output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True).split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--new", help="internal/measure/bench/serve/cell")
    p.add_argument("--old", help="the same of an older commit")
    p.add_argument("--c", help="serve.cu as a program")
    p.add_argument("--device", help="the device of the Go programs")
    p.add_argument("--without", nargs="+", default=[], choices=ORDER, metavar="PROGRAM", help="programs that are not measured")
    p.add_argument("--cells", nargs="+", help="cells or patterns of them; all by default")
    p.add_argument("--time", help="of a cell in a round, 5s by default")
    p.add_argument("--rounds", type=int, help="5 by default")
    p.add_argument("--quick", action="store_true", help="a few cells, 300 ms, one round")
    p.add_argument("--lines", help="a file to which each line is added")
    p.add_argument("--json", help="a file for the medians")
    p.add_argument("--merge", nargs="+", help="files of --lines, which are used instead of measuring")
    o = p.parse_args()
    if bool(o.new) == bool(o.merge):
        p.error("--new or --merge is needed")
    o.time = o.time or ("300ms" if o.quick else "5s")
    o.rounds = o.rounds or (1 if o.quick else 5)
    return o


def main():
    o = options()
    lines = [json.loads(x) for path in o.merge for x in open(path)] if o.merge else measure(o)
    rows, errors = medians(lines)
    found = goals(rows)
    where = about(lines)
    print(", ".join(f"{k} {v}" for k, v in where.items() if v), table(rows), judged(found), sep="\n\n")
    for e in errors:
        print("error:", e, file=sys.stderr)
    if o.json:
        with open(o.json, "w") as f:
            results = ",\n  ".join(json.dumps({"cell": c, "program": p} | r) for (c, p), r in rows.items())
            checks = ",\n  ".join(json.dumps(dict(zip(["cell", "what", "value", "goal", "met"], g))) for g in found)
            f.write(f'{{"schema": "ferry.serve/1",\n "about": {json.dumps(where)},\n "results": [\n  {results}\n ],\n "goals": [\n  {checks}\n ]}}\n')
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
