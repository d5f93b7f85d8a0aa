#!/bin/sh
# Builds internal/measure/bench/serve/cell at an older commit, to compare that commit with this one:
#
#     sh internal/measure/bench/peer/serve_old.sh COMMIT PROGRAM
#
# Only api.go names functions of Ferry that have changed since 324e96f.
set -e
commit=$(git rev-parse --short "$1")
program=$(realpath "$2")
here=$(git rev-parse --show-toplevel)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git -C "$here" archive "$commit" | tar -x -C "$tree"
rm -rf "$tree/internal/bench/serve"
mkdir -p "$tree/internal/bench"
cp -r "$here/internal/bench/serve" "$tree/internal/bench/serve"
rm -f "$tree"/internal/bench/serve/*_test.go "$tree"/internal/bench/serve/cell/*_test.go
if ! grep -q '^func NewStream(' "$tree/stream.go"; then
    sed -i 's/ferry\.PinnedPool/ferry.HostPool/
        s/ferry\.NewPinnedPool(g, nil)/g.NewHostPool(nil)/
        s/ferry\.NewStream(g, /g.NewStream(/
        s/g\.SetSaveCPU(save)/nil/
        s/ferry\.Load(g, \(.*\), nil)/g.Load(\1)/
        s/ferry\.Pageable(/ferry.Plain(/' "$tree/internal/bench/serve/api.go"
elif ! grep -q ' SetSaveCPU(' "$tree/gpu.go"; then
    sed -i 's/return g\.SetSaveCPU(save)/g.SaveCPU(save); return nil/' "$tree/internal/bench/serve/api.go"
fi
cd "$tree"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-X main.commit=$commit" -o "$program" ./internal/measure/bench/serve/cell
