package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kerneltest"
)

func openGPU(t *testing.T) *ferry.GPU {
	t.Helper()
	device := os.Getenv(ferry.SpecVariable)
	if device == "" {
		device = "soft"
	}
	gpu, err := ferry.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gpu.Close(); err != nil {
			t.Error(err)
		}
	})
	return gpu
}

// TestKnown: values of RFC 3720, and the one of all data that ends with its own checksum. That data is a whole block.
func TestKnown(t *testing.T) {
	gpu := openGPU(t)
	random := rand.NewChaCha8([32]byte{2})
	data := make([]byte, blockSize-4)
	_, _ = random.Read(data)
	data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
	for text, want := range map[string]uint32{
		"":                         0,
		"123456789":                0xe3069283,
		strings.Repeat("\x00", 32): 0x8a9136aa,
		strings.Repeat("\xff", 32): 0x62a8ab43,
		string(data):               0x48674bc7,
	} {
		sum, n, err := checksum(context.Background(), gpu, strings.NewReader(text))
		if err != nil || sum != want || n != int64(len(text)) {
			t.Errorf("%d bytes: %08x of %d bytes, want %08x, error %v", len(text), sum, n, want, err)
		}
	}
}

// sizes lie around the borders of blocks and of chunks. The first chunk of a reader has 102 blocks. Race builds, which
// look at each access, leave chunks out.
func sizes() (all []int) {
	borders := []int{0, 1, 2, 102, 300}
	if sample.Race() {
		borders = borders[:3]
	}
	for _, blocks := range borders {
		for d := -1; d <= 1; d++ {
			if n := blocks*blockSize + d; n >= 0 {
				all = append(all, n)
			}
		}
	}
	return all
}

// TestSizes reads from a reader, and from the middle of a file, whose blocks are read at once.
func TestSizes(t *testing.T) {
	gpu := openGPU(t)
	random := rand.NewChaCha8([32]byte{1})
	for _, n := range sizes() {
		data := make([]byte, n)
		_, _ = random.Read(data)
		path := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(path, append([]byte("skip"), data...), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(4, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		want := crc32.Checksum(data, castagnoli)
		for name, in := range map[string]io.Reader{"reader": iotest.HalfReader(bytes.NewReader(data)), "file": file} {
			sum, count, err := checksum(context.Background(), gpu, in)
			if err != nil || sum != want || count != int64(n) {
				t.Errorf("%s of %d bytes: %08x of %d bytes, want %08x, error %v", name, n, sum, count, want, err)
			}
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReaderFails: no checksum of a part, also if the error is one that means a short read elsewhere.
func TestReaderFails(t *testing.T) {
	gpu := openGPU(t)
	for _, want := range []error{io.ErrUnexpectedEOF, io.ErrClosedPipe} {
		in := io.MultiReader(strings.NewReader(strings.Repeat("x", blockSize+1)), iotest.ErrReader(want))
		if sum, _, err := checksum(context.Background(), gpu, in); !errors.Is(err, want) {
			t.Errorf("checksum %08x, error %v, want %v", sum, err, want)
		}
	}
}

// TestCanceled: a reader that never returns does not hold the program.
func TestCanceled(t *testing.T) {
	gpu := openGPU(t)
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	defer out.Close()
	go func() {
		_, _ = out.Write([]byte("x"))
		cancel()
	}()
	if _, _, err := checksum(ctx, gpu, in); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// TestProgram runs the program with a file, with --check.
func TestProgram(t *testing.T) {
	if err := run(context.Background(), "soft", "crc.cu", true); err != nil {
		t.Error(err)
	}
	if err := run(context.Background(), "soft", "absent", true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want %v", err, os.ErrNotExist)
	}
}

// kernelCase is a test of the kernel, with fewer warps than blocks, and with more.
func kernelCase(n int) *kerneltest.Case {
	table := strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Concat(newFactor(128)[:]...)), " ", ","), "[]")
	return &kerneltest.Case{
		File: "crc.ptx", Kernel: "remainders",
		Args: []string{fmt.Sprintf("in:u32=random[%d*1024]", n), fmt.Sprintf("out:u32=[%d]", n), "in:u32=" + table, fmt.Sprintf("u32=%d", n)},
		Configs: func(int) []ferry.LaunchConfig {
			return []ferry.LaunchConfig{ferry.Cover(64, 64), ferry.Cover(320, 32)}
		},
		Want: func(a *kerneltest.Args) {
			words, results := kerneltest.Slice[uint32](a, 0), kerneltest.Slice[uint32](a, 1)
			for i := range results {
				var data []byte
				for _, w := range words[1024*i:][:1024] {
					data = binary.LittleEndian.AppendUint32(data, w)
				}
				results[i] = ^crc32.Update(math.MaxUint32, castagnoli, data)
			}
		},
	}
}

// TestKernel compares remainders with those of the CPU.
func TestKernel(t *testing.T) {
	for _, n := range []int{1, 5} {
		kerneltest.Run(t, kernelCase(n))
	}
}

// TestCompiled compiles the source and compares with the committed PTX, bit by bit.
func TestCompiled(t *testing.T) {
	r := compiletest.File(t, "crc.cu", nil)
	c := kernelCase(3)
	c.Other = r.PTX
	kerneltest.Run(t, c)
}
