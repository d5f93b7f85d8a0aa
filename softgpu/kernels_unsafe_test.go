package softgpu

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// kernelTimes reads docs/results/kernels-h200.tsv: the times of the kernels of
// internal/measure/bench/peer/kernels.cu on an H200 in microseconds, by name.
func kernelTimes(t *testing.T) (names []string, us map[string]float64) {
	t.Helper()
	f, err := os.Open("../docs/results/kernels-h200.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	us = map[string]float64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, ok := cutLast(s.Text())
		x, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			t.Fatalf("a line without a time: %q", s.Text())
		}
		if _, again := us[name]; !again {
			names = append(names, name)
		}
		us[name] = x
	}
	return names, us
}

func cutLast(line string) (name, value string, ok bool) {
	at := strings.LastIndexByte(line, '\t')
	if at < 0 {
		return "", "", false
	}
	return line[:at], line[at+1:], true
}

// kernelRig runs the kernels of internal/measure/bench/peer/kernels.cu.
type kernelRig struct {
	*mechanisms
	out, index cu.DevicePtr
	host       []byte                  // the table on the host
	tables     map[string]cu.DevicePtr // by place: as large as the largest that is used
	rings      map[string]int          // what a table has at present
	below      int                     // what index has at present
}

const kernelTable = 16 << 20 // bytes; larger tables take long

func newKernelRig(t *testing.T) *kernelRig {
	k := &kernelRig{mechanisms: newModule(t, "testdata/kernels.ptx", Options{}), rings: map[string]int{}}
	k.out, k.index = k.alloc(1<<22), k.alloc(4<<20)
	host, b := k.pinned(kernelTable)
	k.host = b
	k.tables = map[string]cu.DevicePtr{"device": k.alloc(kernelTable), "host": cu.DevicePtr(uintptr(host))}
	return k
}

// fill puts words into device memory.
func (k *kernelRig) fill(p cu.DevicePtr, v []uint32) {
	k.ok(k.MemcpyHtoD(k.ctx, p, cu.HostPtr(unsafe.Pointer(&v[0])), uintptr(4*len(v))))
	k.ok(k.CtxSynchronize(k.ctx)) // the stream of the kernels does not wait for the copy
}

// indices fills index with random numbers below n.
func (k *kernelRig) indices(n int) cu.DevicePtr {
	if k.below != n {
		k.fill(k.index, indices(1<<20, n))
		k.below = n
	}
	return k.index
}

// ring returns the table of a place, with a cycle through n words.
func (k *kernelRig) ring(where string, n int) cu.DevicePtr {
	p := k.tables[where]
	if k.rings[where] != n {
		k.rings[where] = n
		if where == "host" {
			copy(unsafe.Slice((*uint32)(unsafe.Pointer(&k.host[0])), n), ring(n))
		} else {
			k.fill(p, ring(n))
		}
	}
	return p
}

// predict returns the predicted time of a row of the results, in microseconds. It is 0 for
// rows that this test leaves out.
func (k *kernelRig) predict(name string) float64 {
	f := strings.Split(name, "\t")
	where, words := f[len(f)-1], 1
	at := k.tables[where]
	if kib := number(name, "KiB "); kib > 0 {
		words = kib << 8
	}
	if words > kernelTable/4 {
		return 0
	}
	grid := map[string]int{"device": 4096, "host": 1024}[where]
	switch f[0] {
	case "table":
		return k.us("table", number(name, "blocks "), 256, k.out, at, uint32(words), uint32(number(name, "skew ")))
	case "put":
		clear(k.rings)
		return k.us("put", grid, 256, at, k.indices(words))
	case "count":
		clear(k.rings)
		if where == "host" {
			grid = 256
		}
		return k.us("count", grid, 256, at, k.indices(words))
	case "pick":
		return k.us("pick", grid, 256, k.tables["device"]+kernelTable/2, at, k.indices(words))
	case "rmw":
		clear(k.rings)
		return k.us("rmw", 1, 32*number(name, "warps "), at, uint32(1<<18))
	case "read":
		return k.us("rd", 1, 32*number(name, "warps "), k.out, at, uint32(1<<18))
	case "chase", "chaseplain":
		return k.us(f[0], 1, 1, k.out, k.ring(where, words), uint32(1000))
	}
	return k.arithmetic(f, number(name, "op "))
}

func (k *kernelRig) arithmetic(f []string, op int) float64 {
	var grid, block int
	if _, err := fmt.Sscanf(f[2], "%d x %d", &grid, &block); err != nil {
		k.t.Fatalf("%q: %v", f, err)
	}
	switch f[0] {
	case "arith f32":
		return k.us("arith_f32", grid, block, k.out, math.Float32bits(1.1), math.Float32bits(0.9), uint32(op), uint32(1000))
	case "arith f64":
		return k.us("arith_f64", grid, block, k.out, cu.DevicePtr(math.Float64bits(1.1)), cu.DevicePtr(math.Float64bits(0.9)), uint32(op), uint32(1000))
	}
	return k.us("arith_u32", grid, block, k.out, uint32(7), uint32(9), uint32(op), uint32(1000))
}

// number returns the number after a word in a name, 0 if there is none.
func number(name, after string) (n int) {
	if _, rest, ok := strings.Cut(name, after); ok {
		fmt.Sscan(rest, &n)
	}
	return n
}

// allKernels runs all rows of the results. Without it the rows with little work are run.
var allKernels = flag.Bool("all-kernels", false, "TestKernelsOnH200: predict kernels of all sizes")

// longRow reports whether a row takes long on the software GPU.
func longRow(name string) bool {
	kib := number(name, "KiB ")
	switch {
	case strings.HasPrefix(name, "arith"):
		return !strings.Contains(name, "1 x 32")
	case strings.HasPrefix(name, "table"):
		return number(name, "blocks ") > 132 || kib > 16
	case strings.HasPrefix(name, "chase"):
		return kib > 512
	case strings.HasSuffix(name, "device"):
		return strings.Contains(name, "KiB") && kib != 4
	}
	return kib > 64
}

type prediction struct {
	name          string
	us, predicted float64
}

func (p prediction) factor() float64 { return max(p.us/p.predicted, p.predicted/p.us) }

// Kernels that depend on one mechanism each take about as long as on an H200.
func TestKernelsOnH200(t *testing.T) {
	onlyFast(t)
	names, us := kernelTimes(t)
	for _, kind := range []string{"table", "put", "count", "pick", "rmw", "read", "chase", "chaseplain", "arith f32", "arith f64", "arith u32"} {
		t.Run(kind, func(t *testing.T) {
			k := newKernelRig(t)
			var all []prediction
			for _, name := range names {
				if strings.HasPrefix(name, kind+"\t") && (*allKernels || !longRow(name)) {
					if got := k.predict(name); got > 0 {
						all = append(all, prediction{name, us[name], got})
					}
				}
			}
			report(t, kind, all)
		})
	}
}

// report logs the predictions, the worst first.
func report(t *testing.T, kind string, all []prediction) {
	slices.SortStableFunc(all, func(a, b prediction) int { return cmp.Compare(b.factor(), a.factor()) })
	most := map[string]float64{"put": 2.1, "pick": 1.6}[kind] // one word
	for _, p := range all {
		limit := max(most, 1.35)
		if strings.Contains(p.name, "skew 1") { // two requests for each line
			limit = 1.45
		}
		if p.factor() > limit {
			t.Errorf("%s: %.1f us measured, %.1f predicted", p.name, p.us, p.predicted)
		}
		t.Logf("%5.2f  %9.1f us measured, %9.1f predicted  %s", p.predicted/p.us, p.us, p.predicted, p.name)
	}
	for _, where := range []string{"device", "host"} {
		var e []float64
		for _, p := range all {
			if strings.HasSuffix(p.name, "host") == (where == "host") {
				e = append(e, math.Abs(p.predicted/p.us-1))
			}
		}
		if len(e) > 0 {
			slices.Sort(e)
			t.Logf("KIND %-18s %3d  median %5.1f %%  p90 %5.1f %%  worst %5.1f %%", kind+" "+where, len(e), 100*e[len(e)/2], 100*e[len(e)*9/10], 100*e[len(e)-1])
		}
	}
}
