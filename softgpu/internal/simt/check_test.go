package simt

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/test/workload"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// raceShape is the end of a kernel's name in testdata/races: blocks and threads.
var raceShape = regexp.MustCompile(`_([0-9]+)x([0-9]+)$`)

// TestCheckCorpus runs kernels with and without a race. testdata/races/pair.h describes
// them.
func TestCheckCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/races/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no kernels", err)
	}
	racy, right := 0, 0
	for _, file := range files {
		m := loadFile(t, newSpace(), filepath.Join("races", filepath.Base(file)))
		var names []string
		for name := range m.kernels {
			names = append(names, name)
		}
		sort.Strings(names)
		if sample.Race() {
			names = sample.OfEach(t, names, func(name string) string { return name[:2] }, 6)
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				found := checkKernel(t, m, name)
				if strings.HasPrefix(name, "racy_") {
					racy++
					want := kernelrace.Race
					if strings.Contains(name, "uninitialized") {
						want = kernelrace.Uninitialized
					}
					if !slices.ContainsFunc(found, func(f Finding) bool { return f.Sort == want }) {
						t.Errorf("no race was found: %+v", found)
					}
					return
				}
				right++
				for _, f := range found {
					t.Errorf("%+v", f)
				}
			})
		}
	}
	t.Logf("%d kernels with a race, %d without", racy, right)
}

// checkKernel runs a kernel of the corpus with the check.
func checkKernel(t *testing.T, m *module, name string) []Finding {
	return mustRun(t, corpusLaunch(t, m, name)).Findings
}

// corpusLaunch returns a launch of a kernel of the corpus with the check.
func corpusLaunch(t *testing.T, m *module, name string) *Launch {
	t.Helper()
	shape := raceShape.FindStringSubmatch(name)
	if shape == nil {
		t.Fatalf("kernel %s has no shape in its name", name)
	}
	grid, _ := strconv.Atoi(shape[1])
	block, _ := strconv.Atoi(shape[2])
	mem := newSpace()
	data := make([]uint32, 16<<10)
	for i := range data {
		data[i] = uint32(i)
	}
	l := m.launch(t, name, grid, block, put(mem, data), put(mem, make([]uint32, 16<<10)), 64)
	l.Memory, l.SharedBytes, l.Check = mem, 4096, true
	return l
}

// TestCheckOwnKernels finds no race in the kernels that Ferry ships.
func TestCheckOwnKernels(t *testing.T) {
	for _, w := range workload.Small() {
		t.Run(w.Kernel, func(t *testing.T) {
			l, _ := launchOf(t, w)
			l.Check = true
			for _, f := range mustRun(t, l).Findings {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestCheckChangesNothing runs kernels with and without the check.
func TestCheckChangesNothing(t *testing.T) {
	for i, w := range workload.Small() {
		plain, a := launchOf(t, w)
		checked, b := launchOf(t, workload.Small()[i]) // with its own bytes
		checked.Check = true
		want, got := mustRun(t, plain), mustRun(t, checked)
		if got.WarpInstructions != want.WarpInstructions || got.Blocks != want.Blocks {
			t.Errorf("%s: %d instructions with the check, %d without", w.Kernel, got.WarpInstructions, want.WarpInstructions)
		}
		for i := range a {
			if !bytes.Equal(a[i].Data, b[i].Data) {
				t.Errorf("%s: buffer %d differs with the check", w.Kernel, i)
			}
		}
	}
}

// TestWarpBarriersApart lets the sides of a branch meet at different bar.warp.sync: the
// lanes that read run first.
func TestWarpBarriersApart(t *testing.T) {
	mem := newSpace()
	m := load(t, mem, "apart.ptx", `.version 7.0
.target sm_80
.address_size 64
.visible .entry apart(.param .u64 out) {
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %d<4>;
	.shared .align 4 .b32 s;
	ld.param.u64 %d1, [out];
	mov.u32 %r1, %tid.x;
	setp.ge.u32 %p1, %r1, 16;
	@%p1 bra WRITE;
	bar.warp.sync 0xffffffff;
	ld.shared.u32 %r2, [s];
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d3, %d1, %d2;
	st.global.u32 [%d3], %r2;
	ret;
WRITE:
	setp.ne.u32 %p2, %r1, 16;
	@%p2 bra MEET;
	mov.u32 %r3, 7;
	st.shared.u32 [s], %r3;
MEET:
	bar.warp.sync 0xffffffff;
	ret;
}`)
	out := put(mem, make([]uint32, 32))
	l := m.launch(t, "apart", 1, 32, out)
	l.Check = true
	for _, f := range mustRun(t, l).Findings {
		t.Errorf("%+v", f)
	}
	for i, v := range valuesOf[uint32](out.Data)[:16] {
		if v != 7 {
			t.Errorf("lane %d read %d, want 7", i, v)
		}
	}
}

// TestNoDynamicShared says why an access to dynamic shared memory faults.
func TestNoDynamicShared(t *testing.T) {
	mem := newSpace()
	m := loadFile(t, mem, "races/shared.ptx")
	l := m.launch(t, "ok_dynamic_1x64", 1, 64, put(mem, make([]uint32, 64)), put(mem, make([]uint32, 64)), 64)
	if f := mustFault(t, l); !strings.Contains(f.Why, "SharedBytes is 0") {
		t.Errorf("why: %q", f.Why)
	}
	l.SharedBytes = 300
	if f := mustFault(t, l); !strings.Contains(f.Why, "300 bytes of shared memory, 300 of them dynamic") {
		t.Errorf("why: %q", f.Why)
	}
}
