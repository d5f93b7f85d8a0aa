package occupancy_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/origin"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/softgpu/internal/occupancy"
)

const (
	schema     = "ferry.occupancy/1"
	recordFile = "../../../docs/results/occupancy-h200.json"
	command    = "FERRY_REQUIRE_GPU=1 go test -run TestHardware ./softgpu/internal/occupancy -update"
)

var update = flag.Bool("update", false, "write the answers of hardware to the record")

// record has the answers of a driver.
type record struct {
	Schema  string           `json:"schema"`
	Device  string           `json:"device"`
	Driver  string           `json:"driver"` // of the kernel module
	CUDA    int32            `json:"cuda"`
	Go      string           `json:"go"`
	Commit  string           `json:"commit"`
	Date    string           `json:"date"`
	Command string           `json:"command"`
	Limits  occupancy.Device `json:"limits"`
	Kernels []kernelRecord   `json:"kernels"`
}

// kernelRecord has the answers about one kernel. A number of -1 stands for an error.
type kernelRecord struct {
	Name      string           `json:"name"`
	Needs     occupancy.Kernel `json:"needs"` // as the driver reports them; the barriers are known
	Active    []activeRow      `json:"active"`
	Suggested []suggestRow     `json:"suggested"`
	Available []availableRow   `json:"available"`
}

// activeRow has the active blocks for blocks of 32, 64, ... 1024 threads.
type activeRow struct {
	Shared int   `json:"shared"`
	Blocks []int `json:"blocks"`
}

type suggestRow struct {
	Shared int `json:"shared"`
	Limit  int `json:"limit"`
	Grid   int `json:"grid"`
	Block  int `json:"block"`
}

type availableRow struct {
	Blocks  int `json:"blocks"`
	Threads int `json:"threads"`
	Bytes   int `json:"bytes"`
}

// variant is a kernel of the experiment.
type variant struct {
	name     string
	values   int    // values that live at once
	bounds   string // directives
	shared   int    // static shared memory
	barriers int
	optIn    bool // allow all dynamic shared memory
	carveout int32
	cache    cu.FuncCache
}

var variants = []variant{
	{name: "nothing", carveout: -1},
	{name: "v8", values: 8, carveout: -1}, {name: "v20", values: 20, carveout: -1}, {name: "v28", values: 28, carveout: -1},
	{name: "v36", values: 36, carveout: -1}, {name: "v52", values: 52, carveout: -1}, {name: "v70", values: 70, carveout: -1},
	{name: "v100", values: 100, carveout: -1}, {name: "v150", values: 150, carveout: -1}, {name: "v240", values: 240, carveout: -1},
	{name: "maxnreg32", values: 100, bounds: ".maxnreg 32", carveout: -1},
	{name: "maxnreg96", values: 150, bounds: ".maxnreg 96", carveout: -1},
	{name: "bounds256", values: 150, bounds: ".maxntid 256, 1, 1", carveout: -1},
	{name: "bounds1024", values: 150, bounds: ".maxntid 1024, 1, 1", carveout: -1},
	{name: "bounds256x4", values: 150, bounds: ".maxntid 256, 1, 1 .minnctapersm 4", carveout: -1},
	{name: "bounds100", values: 20, bounds: ".maxntid 100, 1, 1", carveout: -1},
	{name: "shared1", values: 8, shared: 1, carveout: -1}, {name: "shared1000", values: 8, shared: 1000, carveout: -1},
	{name: "shared16K", values: 8, shared: 16 << 10, carveout: -1}, {name: "shared48K", values: 8, shared: 48 << 10, carveout: -1},
	{name: "opt", values: 20, optIn: true, carveout: -1}, {name: "opt10000", values: 20, shared: 10000, optIn: true, carveout: -1},
	{name: "barriers2", values: 8, barriers: 2, carveout: -1}, {name: "barriers5", values: 8, barriers: 5, carveout: -1},
	{name: "barriers16", values: 8, barriers: 16, carveout: -1},
	{name: "carve0", values: 8, shared: 4096, carveout: 0}, {name: "carve25", values: 8, shared: 4096, carveout: 25},
	{name: "carve50", values: 8, shared: 4096, optIn: true, carveout: 50}, {name: "carve100", values: 8, shared: 4096, carveout: 100},
	{name: "preferL1", values: 8, shared: 4096, carveout: -1, cache: cu.FuncCachePreferL1},
	{name: "preferEqual", values: 8, shared: 4096, carveout: -1, cache: cu.FuncCachePreferEqual},
	{name: "preferShared", values: 8, shared: 4096, carveout: -1, cache: cu.FuncCachePreferShared},
}

// ptx returns the module of a variant. The loads are volatile, so that all values live
// when the first store runs.
func (v *variant) ptx() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p) %s\n{\n\t.reg .b64 %%d;\n\t.reg .b32 %%s;\n", v.bounds)
	if v.values > 0 {
		fmt.Fprintf(&b, "\t.reg .b32 %%r<%d>;\n\tld.param.u64 %%d, [p];\n", v.values)
	}
	if v.shared > 0 {
		fmt.Fprintf(&b, "\t.shared .align 4 .b8 memory[%d];\n\tld.volatile.shared.u8 %%s, [memory];\n\tst.volatile.shared.u8 [memory], %%s;\n", v.shared)
	}
	for i := range v.values {
		fmt.Fprintf(&b, "\tld.volatile.global.u32 %%r%d, [%%d+%d];\n", i, 4*i)
	}
	for i := range v.barriers {
		fmt.Fprintf(&b, "\tbar.sync %d;\n", i)
	}
	for i := range v.values {
		fmt.Fprintf(&b, "\tst.volatile.global.u32 [%%d+%d], %%r%d;\n", 4*(v.values-1-i), i)
	}
	return b.String() + "\tret;\n}\n"
}

// lab asks a driver.
type lab struct {
	t   testing.TB
	d   cu.Driver
	dev cu.Device
	ctx cu.Context
}

func newLab(t testing.TB, d cu.Driver) *lab {
	t.Helper()
	l := &lab{t: t, d: d}
	var err error
	l.dev, err = d.DeviceGet(0)
	l.ok(err)
	l.ctx, err = d.DevicePrimaryCtxRetain(l.dev)
	l.ok(err)
	t.Cleanup(func() { l.ok(d.DevicePrimaryCtxRelease(l.dev)) })
	return l
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%+v", err)
	}
}

func (l *lab) attr(a cu.DeviceAttribute) int {
	l.t.Helper()
	v, err := l.d.DeviceGetAttribute(a, l.dev)
	l.ok(err)
	return int(v)
}

func (l *lab) limits() occupancy.Device {
	return occupancy.Device{
		Major:                 l.attr(cu.DeviceAttributeComputeCapabilityMajor),
		Minor:                 l.attr(cu.DeviceAttributeComputeCapabilityMinor),
		Processors:            l.attr(cu.DeviceAttributeMultiprocessorCount),
		WarpSize:              l.attr(cu.DeviceAttributeWarpSize),
		ThreadsPerBlock:       l.attr(cu.DeviceAttributeMaxThreadsPerBlock),
		ThreadsPerProcessor:   l.attr(cu.DeviceAttributeMaxThreadsPerMultiprocessor),
		BlocksPerProcessor:    l.attr(cu.DeviceAttributeMaxBlocksPerMultiprocessor),
		RegistersPerBlock:     l.attr(cu.DeviceAttributeMaxRegistersPerBlock),
		RegistersPerProcessor: l.attr(cu.DeviceAttributeMaxRegistersPerMultiprocessor),
		SharedPerBlock:        l.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock),
		SharedPerBlockOptin:   l.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin),
		SharedPerProcessor:    l.attr(cu.DeviceAttributeMaxSharedMemoryPerMultiprocessor),
		SharedReserved:        l.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock),
	}
}

// ask records the driver's answers about all variants.
func (l *lab) ask() *record {
	r := &record{
		Schema: schema, Driver: origin.Release(), Go: runtime.Version(), Commit: origin.Commit(),
		Date: time.Now().UTC().Format(time.DateOnly), Command: command, Limits: l.limits(),
	}
	var err error
	r.Device, err = l.d.DeviceGetName(l.dev)
	l.ok(err)
	r.CUDA, err = l.d.DriverGetVersion()
	l.ok(err)
	for i := range variants {
		r.Kernels = append(r.Kernels, l.about(&variants[i], &r.Limits))
	}
	return r
}

func (l *lab) about(v *variant, limits *occupancy.Device) kernelRecord {
	m, err := l.d.ModuleLoadData(l.ctx, []byte(v.ptx()))
	l.ok(err)
	defer func() { l.ok(l.d.ModuleUnload(l.ctx, m)) }()
	f, err := l.d.ModuleGetFunction(l.ctx, m, "k")
	l.ok(err)
	if v.optIn {
		l.ok(l.d.FuncSetAttribute(l.ctx, f, cu.FuncAttributeMaxDynamicSharedBytes, int32(limits.SharedPerBlockOptin-v.shared)))
	}
	if v.carveout >= 0 {
		l.ok(l.d.FuncSetAttribute(l.ctx, f, cu.FuncAttributePreferredSharedMemoryCarveout, v.carveout))
	}
	if v.cache != 0 {
		l.ok(l.d.FuncSetCacheConfig(l.ctx, f, v.cache))
	}
	k := kernelRecord{Name: v.name, Needs: l.needs(f, v)}
	for _, shared := range []int{0, 1, 1000, 4096, 16 << 10, 48<<10 - v.shared, 48 << 10, 60 << 10, 100 << 10, limits.SharedPerBlockOptin - v.shared} {
		row := activeRow{Shared: shared}
		for threads := 32; threads <= 1024; threads += 32 {
			n, err := l.d.OccupancyMaxActiveBlocksPerMultiprocessor(l.ctx, f, int32(threads), uintptr(shared), 0)
			row.Blocks = append(row.Blocks, orError(int(n), err))
		}
		k.Active = append(k.Active, row)
		for _, limit := range []int{0, 32, 100, 500} {
			grid, block, err := l.d.OccupancyMaxPotentialBlockSize(l.ctx, f, uintptr(shared), int32(limit), 0)
			k.Suggested = append(k.Suggested, suggestRow{shared, limit, orError(int(grid), err), orError(int(block), err)})
		}
	}
	for _, threads := range []int{32, 100, 256} {
		for _, blocks := range []int{1, 2, 3, 5, 8, 16, 32} {
			n, err := l.d.OccupancyAvailableDynamicSMemPerBlock(l.ctx, f, int32(blocks), int32(threads))
			k.Available = append(k.Available, availableRow{blocks, threads, orError(int(n), err)})
		}
	}
	return k
}

// needs reads what the kernel takes.
func (l *lab) needs(f cu.Function, v *variant) occupancy.Kernel {
	get := func(a cu.FunctionAttribute) int {
		n, err := l.d.FuncGetAttribute(l.ctx, a, f)
		l.ok(err)
		return int(n)
	}
	return occupancy.Kernel{
		Threads: get(cu.FuncAttributeMaxThreadsPerBlock), Registers: get(cu.FuncAttributeNumRegs),
		StaticShared: get(cu.FuncAttributeSharedSizeBytes), DynamicShared: get(cu.FuncAttributeMaxDynamicSharedBytes),
		Barriers: v.barriers, Carveout: carveout(v), CarveoutSet: v.carveout >= 0,
	}
}

func carveout(v *variant) int {
	if v.carveout >= 0 {
		return int(v.carveout)
	}
	return map[cu.FuncCache]int{cu.FuncCachePreferNone: -1, cu.FuncCachePreferShared: 100, cu.FuncCachePreferL1: 0, cu.FuncCachePreferEqual: 50}[v.cache]
}

func orError(n int, err error) int {
	if err != nil {
		return -1
	}
	return n
}

// compare compares the answers with the formula, given the numbers of the same driver.
func (r *record) compare(t *testing.T) {
	t.Helper()
	if r.Schema != schema || len(r.Kernels) != len(variants) {
		t.Fatalf("the record has schema %q and %d kernels, want %q and %d", r.Schema, len(r.Kernels), schema, len(variants))
	}
	answers := 0
	for i := range r.Kernels {
		k := &r.Kernels[i]
		k.Needs.CarveoutSet = variants[i].carveout >= 0
		wrong := 0
		check := func(got, want int, format string, args ...any) {
			answers++
			if got == want || got == 0 && want < 0 {
				return
			}
			if wrong++; wrong <= 5 {
				t.Errorf("%s %+v: %s: the formula says %d, the driver %d", k.Name, k.Needs, fmt.Sprintf(format, args...), got, want)
			}
		}
		for _, row := range k.Active {
			for j, want := range row.Blocks {
				check(r.Limits.ActiveBlocks(&k.Needs, 32*(j+1), row.Shared), want, "active blocks of %d threads and %d bytes", 32*(j+1), row.Shared)
			}
		}
		for _, row := range k.Suggested {
			grid, block := r.Limits.Suggest(&k.Needs, row.Shared, row.Limit)
			check(grid, row.Grid, "grid for %d bytes, limit %d", row.Shared, row.Limit)
			check(block, row.Block, "block for %d bytes, limit %d", row.Shared, row.Limit)
		}
		for _, row := range k.Available {
			bytes, ok := r.Limits.AvailableShared(&k.Needs, row.Blocks, row.Threads)
			if !ok {
				bytes = -1
			}
			check(bytes, row.Bytes, "shared memory for %d blocks of %d threads", row.Blocks, row.Threads)
		}
	}
	t.Logf("%d answers about %d kernels on %s", answers, len(r.Kernels), r.Device)
	if answers < 10000 {
		t.Errorf("%d answers, want 10000 or more", answers)
	}
}

// TestHardware asks the driver of this machine's GPU.
func TestHardware(t *testing.T) {
	r := newLab(t, gputest.Driver(t)).ask()
	if *update {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), `{"name"`, "\n"+`{"name"`) + "\n")
		if err := os.WriteFile(recordFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.compare(t)
}

// TestRecord compares the formula with the recorded answers of an H200.
func TestRecord(t *testing.T) {
	text, err := os.ReadFile(recordFile)
	if err != nil {
		t.Fatalf("%v; to record the answers of an H200: %s", err, command)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.compare(t)
}

// TestSoftware asks the software GPU, whose registers are an estimate. It shows that the
// experiment asks and compares as it should.
func TestSoftware(t *testing.T) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	r := newLab(t, d).ask()
	r.compare(t)
	for _, k := range r.Kernels {
		t.Logf("%s: about %d registers", k.Name, k.Needs.Registers)
	}
}
