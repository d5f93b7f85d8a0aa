package bench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// counting is a driver that counts launches.
type counting struct {
	cu.Driver
	launches *int
}

func (d counting) Unwrap() cu.Driver { return d.Driver }

func (d counting) LaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error {
	*d.launches++
	return d.Driver.LaunchKernel(ctx, f, grid, block, shared, s, params)
}

// TestReuse checks that every kind launches the kernel as often as was asked for, and that
// reading again costs zero-copy more than copying.
func TestReuse(t *testing.T) {
	t.Setenv(softgpu.ScheduleVariable, "eager")
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	launches := 0
	g, err := ferry.OpenDriver(counting{soft, &launches}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	count := func(reuse ...int) (*Comparison, int) {
		launches = 0
		c, err := Compare(t.Context(), g, &Options{Min: 17, Max: 17, Reuse: reuse})
		if err != nil {
			t.Fatal(err)
		}
		return c, launches
	}
	plain, once := count(1)
	if len(plain.Reuse) != 0 {
		t.Errorf("a reuse of 1 makes another table: %+v", plain.Reuse)
	}
	c, all := count(8, 1, 2, 8)
	if len(c.Reuse) != 2 || c.Reuse[0].Times != 2 || c.Reuse[1].Times != 8 || all != once*(1+2+8) {
		t.Fatalf("got %d launches, %d for one each, %+v", all, once, c.Reuse)
	}
	for _, r := range c.Reuse {
		more := float64(r.Times - 1)
		zero := r.Rows[0].Points[ZeroCopy].Median - c.Rows[0].Points[ZeroCopy].Median
		copied := r.Rows[0].Points[Pinned].Median - c.Rows[0].Points[Pinned].Median
		if float64(zero) < 20e3*more || float64(copied) > 5e3*more {
			t.Errorf("%d launches: zero-copy takes %v more, pinned %v", r.Times, zero, copied)
		}
	}
}

func TestReuseIsRefused(t *testing.T) {
	for _, n := range []int{0, -1, MaxReuse + 1} {
		if _, err := Compare(t.Context(), open(t, "soft"), &Options{Min: 1, Max: 1, Reuse: []int{n}}); err == nil || !strings.Contains(err.Error(), "a reuse of") {
			t.Errorf("%d: got %v", n, err)
		}
	}
}

// TestReadOnce checks that the text says where zero-copy is best only because the data is
// read once: with a measured second reading, and with an estimate.
func TestReadOnce(t *testing.T) {
	row := func(pinned, zero, alone int64) [kindCount]int64 {
		return [kindCount]int64{Pageable: 9000, Pinned: pinned, ZeroCopy: zero, KernelAlone: alone}
	}
	c := table(row(100, 85, 60), row(100, 80, 20), row(100, 90, 10), row(100, 101, 10))
	want := "from 2^11 to 2^12, zero-copy is best because the data is read once:\n  a second read"
	if got := strings.Join(c.readOnce(), "\n"); !strings.HasPrefix(got, want) || strings.Count(got, "because") != 1 {
		t.Errorf("estimated: got %q", got)
	}
	c.Reuse = []Reuse{{4, table(row(110, 90, 0), row(110, 105, 0), row(110, 120, 0), row(110, 130, 0)).Rows}}
	want = "at 2^12, zero-copy is best because the data is read once:\n  read 4 times, pinned is best"
	if got := strings.Join(c.readOnce(), "\n"); got != want {
		t.Errorf("measured: got %q, want %q", got, want)
	}
	if !strings.Contains(c.Page(false).Text(0), want) {
		t.Error("the text lacks the sentence")
	}
}

// TestRates checks rates by hand: 1024 floats are 8192 bytes in and 4096 out.
func TestRates(t *testing.T) {
	c := table([kindCount]int64{Pinned: 4096, ZeroCopy: 2048})
	c.Rows[0].Points[ZeroCopyKernel] = &Point{Samples: 1, Median: 1024}
	c.Link = &Link{In: 8e9, Out: 2e9}
	text, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Rows []struct {
			Kernel  float64            `json:"zero_copy_kernel_ns"`
			Rate    map[string]float64 `json:"gb_per_s"`
			Percent map[string]float64 `json:"link_percent"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	r := doc.Rows[0]
	// The way out takes 2048 ns, the way in 1024.
	if r.Kernel != 1024 || r.Rate["pinned"] != 3 || r.Rate["zero_copy_kernel"] != 12 || r.Percent["pinned"] != 50 || r.Percent["zero_copy"] != 100 {
		t.Errorf("got %+v", r)
	}
	if _, there := r.Rate["kernel"]; there {
		t.Error("the kernel alone has a rate, but nothing crosses the link")
	}
	if want := "  2^10     3.00  50%      6.00 100%         -    -   1.02 us     12.0 200%\n"; !strings.Contains(c.Page(false).Text(0), want) {
		t.Errorf("the text lacks %q:\n%s", want, c.Page(false).Text(0))
	}
	c.Link = nil
	if text, _ := c.JSON(); strings.Contains(string(text), "gb_per_s") || strings.Contains(string(text), "link") {
		t.Errorf("rates without a link: %s", text)
	}
}

// TestMeasuredRates checks that zero-copy's kernel takes less than its step, and that no
// kind is faster than the link.
func TestMeasuredRates(t *testing.T) {
	c := compare(t, "soft:h200", &Options{Min: 18, Max: 20, Rates: true})
	if c.Link == nil || c.Link.In < 1e9 || c.Link.Out < 1e9 {
		t.Fatalf("got %+v", c.Link)
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		kernel, step := r.Points[ZeroCopyKernel], r.Points[ZeroCopy]
		if kernel == nil || kernel.Median >= step.Median || r.linkPercent(kernel, c.Link) > 105 {
			t.Errorf("%s: the kernel takes %+v, the step %+v", r.size(), kernel, step)
		}
		if best, _ := r.Best(); best == ZeroCopyKernel {
			t.Errorf("%s: a kernel alone is marked as best", r.size())
		}
	}
}

// TestPageableInKernels checks that devices that can read pageable memory have that column,
// and others not.
func TestPageableInKernels(t *testing.T) {
	for device, can := range map[string]bool{"soft:gh200": true, "soft:h200": false} {
		c := compare(t, device, &Options{Min: 3, Max: 5})
		text, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if c.has(PageableInKernels) != can || strings.Contains(string(text), "pageable_in_kernels_ns") != can || strings.Contains(c.Page(false).Text(0), "in kernels") != can {
			t.Errorf("%s: %s", device, c.Page(false).Text(0))
		}
	}
}

// ownPTX has kernels of several signatures.
const ownPTX = `.version 6.0
.target sm_50
.address_size 64
.visible .entry good(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
.visible .entry three(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }
.visible .entry scalar(.param .u64 a, .param .u64 b, .param .f64 c, .param .u64 n) { ret; }
.visible .entry narrow(.param .u32 a, .param .u64 b, .param .u64 c, .param .u64 n) { ret; }
.visible .entry array(.param .u64 a, .param .u64 b, .param .u64 c, .param .b8 n[8]) { ret; }
`

func TestReadKernel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.ptx")
	if err := os.WriteFile(file, []byte(ownPTX), 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := ReadKernel(file, "good")
	if err != nil || !k.narrow {
		t.Fatalf("got %+v, %v", k, err)
	}
	for name, want := range map[string]string{
		"three":  "compare launches " + Signature,
		"scalar": ".f64 c",
		"narrow": ".u32 a",
		"array":  "n[8 bytes]",
		"goud":   `kernel "goud" is not in`,
	} {
		if _, err := ReadKernel(file, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", name, err, want)
		}
	}
	// good writes nothing, which is no result.
	if _, err := Compare(t.Context(), open(t, "soft"), &Options{Min: 4, Max: 4, Kernel: k}); err == nil || !strings.Contains(err.Error(), "good wrote no element of c") {
		t.Errorf("a kernel that writes nothing: got %v", err)
	}
}

// TestOwnKernelVerify checks that results are compared bit by bit: -0 is not 0, and a NaN
// is itself.
func TestOwnKernelVerify(t *testing.T) {
	k := &OwnKernel{Name: "k"}
	nan, minus := float32(math.NaN()), float32(math.Copysign(0, -1))
	if err := k.verify([]float32{nan, minus}, []float32{nan, minus}); err != nil {
		t.Errorf("the same results: got %v", err)
	}
	if err := k.verify([]float32{nan, 0}, []float32{nan, minus}); err == nil || !strings.Contains(err.Error(), "1 of 2 results") {
		t.Errorf("0 in place of -0: got %v", err)
	}
}

// TestOwnKernel runs an own kernel with every kind, and finds a result that differs from
// that on device memory.
func TestOwnKernel(t *testing.T) {
	k, err := ReadKernel("../../../kernels/kernels.ptx", "vector_add")
	if err != nil {
		t.Fatal(err)
	}
	c := compare(t, "soft:gh200", &Options{Min: 9, Max: 10, Kernel: k, Reuse: []int{3}})
	for r := range c.all() {
		if !r.Verified || r.Points[ZeroCopy] == nil || r.Points[PageableInKernels] == nil {
			t.Errorf("%s: got %+v", r.size(), r)
		}
	}
	if !strings.Contains(c.Page(false).Text(0), "c = vector_add(a, b) of ../../../kernels/kernels.ptx, from") {
		t.Errorf("got %s", c.Page(false).Text(0))
	}
	b, err := newComparer(open(t, "soft"), k)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	l, err := b.newLab(1000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	spoil := func(l *lab) error { l.pinned.c.Slice()[7]++; return nil }
	if _, err := b.sample(t.Context(), spoiled(t, l, Pinned, spoil)); err == nil || !strings.Contains(err.Error(), "1 of 1000 results of vector_add differ") || !strings.Contains(err.Error(), "c[7]") {
		t.Errorf("one wrong element: got %v", err)
	}
}
