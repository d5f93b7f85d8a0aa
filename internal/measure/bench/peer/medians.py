"""Medians of benchmark lines, as JSON.

    (for i in 1 2 3; do ...benchmarks...; done) | python3 internal/measure/bench/peer/medians.py key=value ... > out.json

The input has lines of go test -bench. Lines with the same name are runs of one
benchmark. The arguments and lines that begin with "# " go into "about".
"""
import json
import re
import statistics
import sys


def medians(lines):
    """Returns the description of the machine, and a row for each benchmark."""
    about, values = {}, {}
    for line in lines:
        if line.startswith("# "):
            about["peer"] = line[2:].strip()
        if m := re.match(r"(cpu|goos|goarch): (.*)", line):
            about[m[1]] = m[2]
        m = re.match(r"Benchmark(\S+?)(?:-(\d+))?\s+\d+\s+(.*)", line)
        if not m:
            continue
        fields = m[3].split()
        for number, unit in zip(fields[::2], fields[1::2]):
            values.setdefault((m[1], int(m[2] or 1), unit), []).append(float(number))
    rows = {}
    for (name, cores, unit), got in values.items():
        row = rows.setdefault((name, cores), {"name": name, "cores": cores, "runs": len(got)})
        row[unit] = float(f"{statistics.median(got):.4g}")
    return about, list(rows.values())


if __name__ == "__main__":
    about, results = medians(sys.stdin)
    about = dict(a.split("=", 1) for a in sys.argv[1:]) | about
    json.dump({"about": about, "results": results}, sys.stdout, indent=1)
    print()
