"""The peer of internal/measure/bench/load in Python: safetensors with PyTorch. The form of requests
and answers is that program's request.go.

    load_file  safetensors.torch.load_file onto the device
    safe_open  safe_open on the device, and get_tensor for each name

    python3 load.py
"""
import json
import random
import sys
import time

import safetensors
import safetensors.torch
import torch

DEVICE = "cuda:0"


def load_file(path):
    return safetensors.torch.load_file(path, device=DEVICE)


def safe_open(path):
    with safetensors.safe_open(path, framework="pt", device=DEVICE) as f:
        return {name: f.get_tensor(name) for name in f.keys()}


def places(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    return {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}


def same(tensors, path, data):
    """compares the names, and the bytes of 64 tensors"""
    where = places(path)
    if set(tensors) != set(where):
        return False
    names = random.sample(list(where), min(64, len(where)))
    with open(path, "rb") as f:
        for name in names:
            begin, end = where[name]
            f.seek(data + begin)
            want = torch.frombuffer(bytearray(f.read(end - begin)), dtype=torch.uint8)
            if not torch.equal(tensors[name].view(torch.uint8).flatten().cpu(), want):
                return False
    return True


def run(how, gpus, data, path):
    method = {"load_file": load_file, "safe_open": safe_open}.get(how)
    if method is None:
        return f"-1 there is no method {how}"
    if gpus != "one":
        return "-1 this peer loads to one GPU"
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    tensors = method(path)
    torch.cuda.synchronize()
    took = time.perf_counter_ns() - begin
    ok = same(tensors, path, data)
    del tensors
    torch.cuda.empty_cache()
    return took if ok else "-1 the bytes of the device differ from the file's"


torch.zeros(1, device=DEVICE)
print("ready", flush=True)
for line in sys.stdin:
    how, gpus, _, data, _, path = line.rstrip("\n").split(" ", 5)
    try:
        print(run(how, gpus, int(data), path), flush=True)
    except Exception as e:  # the next request may be possible
        print("-1", repr(e).replace("\n", " "), flush=True)
