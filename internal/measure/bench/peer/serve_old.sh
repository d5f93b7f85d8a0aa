#!/bin/sh
# Builds internal/measure/bench/serve/cell at an older commit, to compare that commit with this one:
#
#     sh internal/measure/bench/peer/serve_old.sh COMMIT PROGRAM
#
# Only api.go and worker.go name functions of Ferry that have changed since 324e96f.
set -e
commit=$(git rev-parse --short "$1")
program=$(realpath "$2")
here=$(git rev-parse --show-toplevel)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git -C "$here" archive "$commit" | tar -x -C "$tree"
serve=internal/measure/bench/serve
rm -rf "$tree/$serve"
mkdir -p "$tree/internal/measure/bench"
cp -r "$here/$serve" "$tree/$serve"
rm -f "$tree/$serve"/*_test.go "$tree/$serve"/cell/*_test.go
grep -q '^func Cover(' "$tree"/*.go || sed -i 's/ferry\.Cover(/ferry.Grid(/' "$tree/$serve/worker.go"
if ! grep -q '^func NewStream(' "$tree/stream.go"; then
    sed -i 's/ferry\.PinnedPool/ferry.HostPool/
        s/ferry\.NewPinnedPool(g, nil)/g.NewHostPool(nil)/
        s/ferry\.NewStream(g, /g.NewStream(/
        s/g\.SetSaveCPU(save)/nil/
        s/ferry\.Load(g, \(.*\), nil)/g.Load(\1)/
        s/ferry\.Pageable(/ferry.Plain(/' "$tree/$serve/api.go"
elif ! grep -q ' SetSaveCPU(' "$tree/gpu.go"; then
    sed -i 's/return g\.SetSaveCPU(save)/g.SaveCPU(save); return nil/' "$tree/$serve/api.go"
fi
cd "$tree"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-X main.commit=$commit" -o "$program" "./$serve/cell"
