package mathtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

const ptxFile = "testdata/math.ptx.gz"

var withSuffix = regexp.MustCompile(`(\w+)S\(`)

func kernelName(f *function, t *kind) string { return "test_" + f.name + t.suffix }

// expression returns the C expression of a function. %c is the letter of the type, %F the
// suffix.
func expression(f *function, t *kind) string {
	text := strings.ReplaceAll(strings.ReplaceAll(f.expr, "%c", t.name[:1]), "%F", t.suffix)
	return withSuffix.ReplaceAllString(text, "${1}"+t.suffix+"(")
}

// kernelSource returns the source of the test kernels: one for each function and type, or of
// the functions with these names and suffixes.
func kernelSource(only ...string) []byte {
	var s strings.Builder
	for i := range functions {
		for _, t := range kinds {
			f := &functions[i]
			if f.floatOnly && t.size == 64 || len(only) > 0 && !slices.Contains(only, f.name+t.suffix) {
				continue
			}
			fmt.Fprintf(&s, "extern \"C\" __global__ void %s(const %s *a, const %s *b, const %s *c, %s *out, unsigned n)\n{\n",
				kernelName(f, t), t.name, t.name, t.name, t.name)
			fmt.Fprintf(&s, "    typedef %s T;\n    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n", t.name)
			fmt.Fprintf(&s, "    T x = a[i], y = b[i], z = c[i];\n    (void)y, (void)z;\n    out[i] = %s;\n}\n", expression(f, t))
		}
	}
	return []byte(s.String())
}

// committedPTX returns the PTX of the test kernels.
func committedPTX(t testing.TB) []byte {
	t.Helper()
	file, err := os.Open(ptxFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writePTX(t testing.TB, text []byte) {
	t.Helper()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	z.Write(text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ptxFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// device is a GPU with the test kernels.
type device struct {
	gpu    *ferry.GPU
	module *ferry.Module
}

func newDevice(t testing.TB, gpu *ferry.GPU, ptx []byte) *device {
	t.Helper()
	m, err := ferry.Load(gpu, ptx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &device{gpu, m}
}

func newSoft(t testing.TB, ptx []byte) *device {
	t.Helper()
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return newDevice(t, g, ptx)
}

// run returns the bits of the results of a function.
func (d *device) run(f *function, t *kind, args [][]float64) ([]uint64, error) {
	if t.size == 32 {
		return runAs(d, kernelName(f, t), args, func(x float64) uint32 { return uint32(t.bits(x)) })
	}
	return runAs(d, kernelName(f, t), args, t.bits)
}

func runAs[W uint32 | uint64](d *device, name string, args [][]float64, bits func(float64) W) ([]uint64, error) {
	k, err := d.module.Kernel(name)
	if err != nil {
		return nil, err
	}
	n := len(args[0])
	bufs := make([]*ferry.Device[W], 4)
	for i := range bufs {
		words := make([]W, n)
		for j := range words {
			words[j] = 0x5a5a5a5a
			if i < 3 {
				words[j] = bits(args[i][j])
			}
		}
		if bufs[i], err = ferry.Upload(d.gpu, words); err != nil {
			return nil, err
		}
		defer bufs[i].Close()
	}
	if err := d.gpu.DefaultStream().Launch(k, ferry.Cover(n, 128), bufs[0], bufs[1], bufs[2], bufs[3], uint32(n)); err != nil {
		return nil, err
	}
	words, err := ferry.Download(bufs[3])
	if err != nil {
		return nil, err
	}
	out := make([]uint64, n)
	for i, w := range words {
		out[i] = uint64(w)
	}
	return out, nil
}

// sum returns a hash of all bits.
func sum(words []uint64) string {
	h := fnv.New64a()
	for _, w := range words {
		fmt.Fprintf(h, "%x,", w)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
