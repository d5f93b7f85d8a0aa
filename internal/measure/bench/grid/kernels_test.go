package grid

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// testWords is the number of words in the tests of kernels. It is no multiple of a block.
const testWords = 1000

// kernelRun is a kernel with its data and the result that Go computes.
type kernelRun struct {
	kernel  string
	in      []uint32 // in device memory
	out     int      // words of output
	params  func(in, out cu.DevicePtr) []any
	blocks  int                // of 256 threads; 0 for as many as words of output
	want    func(i int) uint32 // word i of the output
	rounded bool               // the output is a float that may differ by a millionth
}

func bitsOf(f float32) uint32  { return math.Float32bits(f) }
func floatOf(u uint32) float32 { return math.Float32frombits(u) }
func small32(i int) float32    { return float32(i%23 + 1) }
func smallAt(i int) uint32     { return bitsOf(small32(i)) }
func table(n int, f func(i int) uint32) (out []uint32) {
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

// repeated returns the run of a kernel with the parameters in, out, n and times.
func repeated(kernel string, times, blocks int, want func(i int) float32) kernelRun {
	out := testWords
	if blocks > 0 {
		out = blocks * threads
	}
	return kernelRun{
		kernel: kernel, in: table(testWords, smallAt), out: out, blocks: blocks,
		params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(testWords), uint32(times)} },
		want:   func(i int) uint32 { return bitsOf(want(i)) },
	}
}

// dependent returns the run of a kernel that computes one step after the other.
func dependent(kernel string, rounded bool, step func(x float64) float64) kernelRun {
	k := repeated(kernel, 3, 0, func(i int) float32 {
		x := float64(small32(i))
		for range 3 {
			x = step(x)
		}
		return float32(x)
	})
	k.rounded = rounded
	return k
}

// chainRun returns the run of a kernel that follows chains.
func chainRun(kernel string) kernelRun {
	in := table(1024, func(i int) uint32 { return uint32(i*5+3) % 1024 })
	return kernelRun{kernel: kernel, in: in, out: 256,
		params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint32(7)} },
		want: func(i int) uint32 {
			p := uint32(i)
			for range 7 {
				p = in[p]
			}
			return p
		}}
}

// sumsRun returns the run of a kernel that adds in one direction of a matrix.
func sumsRun(kernel string, width, height, lines int, at func(line, i int) int, count int) kernelRun {
	return kernelRun{kernel: kernel, in: table(width*height, smallAt), out: lines,
		params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(width), uint64(height)} },
		want: func(line int) uint32 {
			sum := float32(0)
			for i := range count {
				sum += small32(at(line, i))
			}
			return bitsOf(sum)
		}}
}

// counts returns how often i occurs in the test words, as indices, below n.
func counts(n, i int) (count uint32) {
	for k := range testWords {
		if random(k)%uint32(n) == uint32(i) {
			count++
		}
	}
	return count
}

// sumOf adds the test words that start and step choose.
func sumOf(start, step int) (sum float32) {
	for i := start; i < testWords; i += step {
		sum += small32(i)
	}
	return sum
}

// kernelRuns returns a run of each kernel of patterns.cu.
func kernelRuns() []kernelRun {
	const wide = 64
	square := table(wide*wide, smallAt)
	index := func(n int) []uint32 { return table(testWords, func(i int) uint32 { return random(i) % uint32(n) }) }
	multiply := func(x float64) float64 { return float64(float32(x))*float64(float32(0.999)) + 1 }
	return []kernelRun{
		repeated("same_word", 4, 0, func(i int) float32 { return 4 * small32(i) }),
		repeated("passes", 3, 2, func(i int) (sum float32) {
			for k := range 3 {
				sum += sumOf((i+k*7*threads)%(2*threads), 2*threads)
			}
			return sum
		}),
		repeated("neighbours", 3, 0, func(i int) (sum float32) {
			for k := range 3 {
				if i+k < testWords {
					sum += small32(i + k)
				} else {
					sum += small32(i)
				}
			}
			return sum
		}),
		repeated("shared_table", 2, 3, func(i int) float32 { return 2 * sumOf(i%threads, threads) }),
		sumsRun("row_sums", 10, 100, 100, func(line, i int) int { return line*10 + i }, 10),
		sumsRun("column_sums", 100, 10, 100, func(line, i int) int { return i*100 + line }, 10),
		{kernel: "gather", in: append(index(50), table(50, smallAt)...), out: testWords,
			params: func(in, out cu.DevicePtr) []any { return []any{in, in + 4*testWords, out, uint64(testWords)} },
			want:   func(i int) uint32 { return smallAt(int(random(i) % 50)) }},
		{kernel: "scatter", in: table(testWords, func(i int) uint32 { return uint32(testWords - 1 - i) }), out: testWords,
			params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(testWords)} },
			want:   func(i int) uint32 { return bitsOf(float32(testWords - 1 - i)) }},
		{kernel: "histogram", in: index(50), out: 50, blocks: blocksFor(testWords),
			params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(testWords)} },
			want:   func(i int) uint32 { return counts(50, i) }},
		{kernel: "histogram_shared", in: index(1024), out: 1024, blocks: 2,
			params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(testWords)} },
			want:   func(i int) uint32 { return counts(1024, i) }},
		{kernel: "change", in: []uint32{0}, out: testWords, blocks: 2,
			params: func(_, out cu.DevicePtr) []any { return []any{out, uint64(testWords)} },
			want:   func(int) uint32 { return bitsOf(1) }},
		{kernel: "add_up", in: table(testWords, smallAt), out: 2 * threads, blocks: 2,
			params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(testWords)} },
			want:   func(i int) uint32 { return bitsOf(sumOf(i, 2*threads)) }},
		{kernel: "write_all", in: []uint32{0}, out: testWords, blocks: 2,
			params: func(_, out cu.DevicePtr) []any { return []any{out, uint64(testWords)} },
			want:   func(i int) uint32 { return bitsOf(float32(i)) }},
		chainRun("chase_volatile"), chainRun("chase"),
		dependent("multiply_add", true, multiply),
		dependent("multiply_add_double", true, func(x float64) float64 { return x*0.999 + 1 }),
		dependent("square_roots", true, func(x float64) float64 { return math.Sqrt(x) + 1.5 }),
		dependent("exact_square_roots", true, func(x float64) float64 { return math.Sqrt(x) + 1.5 }),
		dependent("divide", true, func(x float64) float64 { return 3/x + 1.5 }),
		dependent("divide_double", true, func(x float64) float64 { return 3/x + 1.5 }),
		dependent("sines", true, func(x float64) float64 { return math.Sin(x) + 1.5 }),
		dependent("convert", false, func(x float64) float64 { return (math.Trunc(x) + 3) / 2 }),
		dependent("multiply_integers", false, func(x float64) float64 { return float64(uint32(x)*1664525 + 1013904223) }),
		repeated("divide_integers", 3, 0, func(i int) float32 {
			x, by := uint32(i)+12345, uint32(small32(i))+7
			for k := range uint32(3) {
				x = (x+0x9e3779b9)/by + k
			}
			return float32(x)
		}),
		{kernel: "transpose", in: square, out: wide * wide, blocks: wide / 32 * wide / 32,
			params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint32(wide)} },
			want:   func(i int) uint32 { return square[i%wide*wide+i/wide] }},
		{kernel: "multiply", in: square, out: wide * wide,
			params: func(in, out cu.DevicePtr) []any { return []any{in, in, out, uint32(wide)} },
			want: func(i int) uint32 {
				sum := float32(0)
				for k := range wide {
					sum += floatOf(square[i/wide*wide+k]) * floatOf(square[k*wide+i%wide])
				}
				return bitsOf(sum)
			}},
		{kernel: "touch", in: table(testWords, smallAt), out: testWords / 10,
			params: func(in, out cu.DevicePtr) []any { return []any{in, out, uint64(testWords), uint64(10)} },
			want:   func(i int) uint32 { return smallAt(10 * i) }},
		{kernel: "nothing", in: []uint32{0}, out: 1,
			params: func(_, _ cu.DevicePtr) []any { return []any{uint32(1)} },
			want:   func(int) uint32 { return 0 }},
	}
}

// TestKernels compares each kernel of patterns.cu with Go.
func TestKernels(t *testing.T) {
	checkKernels(t, open(t, "soft:h200"))
}

// TestKernelsOnHardware does so on a GPU.
func TestKernelsOnHardware(t *testing.T) {
	g, err := ferry.OpenDriver(gputest.Driver(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	checkKernels(t, g)
}

func checkKernels(t *testing.T, g *ferry.GPU) {
	r, err := newRig(g)
	if err == nil {
		err = r.load(patternsPTX, patternKernels)
	}
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for _, k := range kernelRuns() {
		tested = append(tested, k.kernel)
		got, err := r.result(k)
		if err != nil {
			t.Fatalf("%s: %v", k.kernel, err)
		}
		if err := k.check(got); err != nil {
			t.Errorf("%s: %v", k.kernel, err)
		}
	}
	slices.Sort(tested)
	if all := slices.Sorted(slices.Values(patternKernels)); !slices.Equal(tested, all) {
		t.Errorf("tested %v, want %v", tested, all)
	}
}

// result runs a kernel on a zeroed output and returns it.
func (r *rig) result(k kernelRun) ([]uint32, error) {
	in, err := r.input(words(len(k.in), func(i int) uint32 { return k.in[i] }), onDevice)
	if err != nil {
		return nil, err
	}
	out, err := r.input(make([]byte, 4*k.out), onDevice)
	if err != nil {
		return nil, err
	}
	blocks := k.blocks
	if blocks == 0 {
		blocks = blocksFor(k.out)
	}
	if err := r.submit(job{k.kernel, blocks, threads, pack(k.params(in.at, out.at)...)}, r.stream); err != nil {
		return nil, err
	}
	if err := r.sync(); err != nil {
		return nil, err
	}
	back := make([]byte, 4*k.out)
	if err := r.d.MemcpyDtoH(r.ctx, pointer(back), out.at, uintptr(len(back))); err != nil {
		return nil, err
	}
	return table(k.out, func(i int) uint32 { return binary.LittleEndian.Uint32(back[4*i:]) }), r.release()
}

func (k *kernelRun) check(got []uint32) error {
	for i, bits := range got {
		want := k.want(i)
		near := k.rounded && math.Abs(float64(floatOf(bits)/floatOf(want))-1) < 1e-6
		if bits != want && !near {
			return fmt.Errorf("word %d: got %#x (%v), want %#x (%v)", i, bits, floatOf(bits), want, floatOf(want))
		}
	}
	return nil
}

// ptxClang is the compiler that made patterns.ptx. Other versions write other text.
const ptxClang = "clang version 19.1.7"

// TestPTX compiles patterns.cu with that compiler and compares the result.
func TestPTX(t *testing.T) {
	clang, err := exec.LookPath("clang-19")
	if err != nil {
		t.Skipf("patterns.ptx is made by clang-19, which is not installed: %v", err)
	}
	if version, err := exec.Command(clang, "--version").Output(); err != nil || !strings.Contains(string(version), ptxClang) {
		t.Skipf("patterns.ptx is made by %s, this is %s, %v", ptxClang, version, err)
	}
	text, err := exec.Command(clang, "-x", "cuda", "--cuda-gpu-arch=sm_52", "--cuda-device-only", "-nocudainc", "-nocudalib", "-O2", "-S", "patterns.cu", "-o", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("patterns.ptx", text, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != patternsPTX {
		t.Error("patterns.ptx is not what clang-19 makes of patterns.cu: run this test with -update")
	}
	for _, name := range patternKernels {
		if !strings.Contains(string(text), ".entry "+name+"(") {
			t.Errorf("patterns.cu has no kernel %s", name)
		}
	}
}
