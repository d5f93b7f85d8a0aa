package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// reference converts frames on the CPU.
func reference(nv12 []byte, width, height int) (rgb []byte) {
	limited := func(x int) byte { return byte(min(max(x, 0), 255)) }
	for pixels := width * height; len(nv12) > 0; nv12 = nv12[pixels*3/2:] {
		for i := range pixels {
			colour := pixels + i/width/2*width + i%width/2*2
			light, u, v := 298*(int(nv12[i])-16)+128, int(nv12[colour])-128, int(nv12[colour+1])-128
			rgb = append(rgb, limited((light+459*v)>>8), limited((light-55*u-136*v)>>8), limited((light+541*u)>>8))
		}
	}
	return rgb
}

// noise returns frames whose bytes have all values.
func noise(frames, width, height int) []byte {
	data := make([]byte, frames*width*height*3/2)
	_, _ = rand.NewChaCha8([32]byte{byte(width)}).Read(data)
	return data
}

// TestConvert compares frames of several sizes with those of the CPU: smaller than a block of threads, no multiple
// of it, and more frames than a chunk has.
func TestConvert(t *testing.T) {
	gpu := openGPU(t)
	for _, c := range []struct {
		size
		frames int
	}{
		{size{2, 2, convert[[2 * 2 * 3 / 2]byte, [2 * 2 * 3]byte]}, 3},
		{size{34, 18, convert[[34 * 18 * 3 / 2]byte, [34 * 18 * 3]byte]}, 2},
		{sizes[0], 80},
		{sizes[1], 2},
		{sizes[1], 0},
	} {
		in := noise(c.frames, c.width, c.height)
		for name, r := range map[string]io.Reader{"file": bytes.NewReader(in), "reader": io.MultiReader(bytes.NewReader(in))} {
			var out bytes.Buffer
			n, err := c.convert(context.Background(), gpu, r, &out, c.width, c.height)
			if err != nil || n != c.frames || !bytes.Equal(out.Bytes(), reference(in, c.width, c.height)) {
				t.Errorf("%v, %s: %d frames of %d, equal %v, error %v", c.size, name, n, c.frames,
					bytes.Equal(out.Bytes(), reference(in, c.width, c.height)), err)
			}
		}
	}
}

// TestColours: what the standard says for white, black and the three colours, within its rounding.
func TestColours(t *testing.T) {
	for name, c := range map[string][6]int{
		"white": {235, 128, 128, 255, 255, 255}, "black": {16, 128, 128, 0, 0, 0},
		"red": {63, 102, 240, 255, 0, 0}, "green": {173, 42, 26, 0, 255, 0}, "blue": {32, 240, 118, 0, 0, 255},
	} {
		y, u, v := byte(c[0]), byte(c[1]), byte(c[2])
		var out bytes.Buffer
		convert := convert[[2 * 2 * 3 / 2]byte, [2 * 2 * 3]byte]
		if _, err := convert(context.Background(), openGPU(t), bytes.NewReader([]byte{y, y, y, y, u, v}), &out, 2, 2); err != nil {
			t.Fatal(err)
		}
		for i, got := range out.Bytes() {
			if d := int(got) - c[3+i%3]; d < -2 || d > 2 {
				t.Errorf("%s: got %v, want %v", name, out.Bytes(), c[3:])
				break
			}
		}
	}
}

// TestSizes: the arrays of each size in the list have the bytes of a frame. A pipeline says how many an element has
// when the file ends within one. The largest pictures take long, so only FERRY_FULL=1 makes them,
// and race builds, which look at each access, make small ones.
func TestSizes(t *testing.T) {
	gpu := openGPU(t)
	for _, s := range sizes {
		_, err := s.convert(context.Background(), gpu, strings.NewReader("x"), io.Discard, s.width, s.height)
		if want := fmt.Sprintf("of %d:", s.width*s.height*3/2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q in it", s, err, want)
		}
		if s.width > 1280 && !sample.Full() || s.width > 320 && sample.Race() {
			continue
		}
		var out bytes.Buffer
		n, err := s.convert(context.Background(), gpu, &film{width: s.width, height: s.height, frames: 1}, &out, s.width, s.height)
		if n != 1 || out.Len() != 3*s.width*s.height || err != nil {
			t.Errorf("%v: %d frames, %d bytes, error %v", s, n, out.Len(), err)
		}
	}
	if s, err := sizeOf("1280x720"); err != nil || s.width != 1280 || s.height != 720 {
		t.Errorf("size %v, error %v", s, err)
	}
}

// TestProgram converts a raw file, and compares the file of all frames and the picture of one.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	o := options{device: "soft", size: "64x36", in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out"), ppm: filepath.Join(dir, "ppm"), frame: 2}
	in := noise(4, 64, 36)
	write := func(data []byte) {
		if err := os.WriteFile(o.in, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write(in)
	if err := run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	want := reference(in, 64, 36)
	if !bytes.Equal(read(o.out), want) {
		t.Error("the frames differ from those of the CPU")
	}
	if frame := len(want) / 4; string(read(o.ppm)) != "P6\n64 36\n255\n"+string(want[2*frame:3*frame]) {
		t.Error("the picture is not frame 2")
	}
	write(in[:len(in)-1])
	if err := run(context.Background(), o); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "the last frame is cut off") {
		t.Errorf("the file lacks a byte: error %v", err)
	}
	write(in)
	o.frame = 4
	if err := run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "no frame 4") {
		t.Errorf("a picture of frame 4 of 0 to 3: error %v", err)
	}
	o.in, o.frame, o.frames = "", 0, 2
	if err := run(context.Background(), o); err != nil || len(read(o.out)) != len(want)/2 {
		t.Errorf("frames of the program itself: %d bytes, error %v", len(read(o.out)), err)
	}
}

// TestPart: a part of what comes in pieces.
func TestPart(t *testing.T) {
	for piece := 1; piece <= 10; piece++ {
		var out bytes.Buffer
		p := &part{w: &out, skip: 3, left: 4}
		for rest := []byte("0123456789"); len(rest) > 0; {
			n, err := p.Write(rest[:min(piece, len(rest))])
			if n != min(piece, len(rest)) || err != nil {
				t.Fatalf("%d bytes of %d, error %v", n, piece, err)
			}
			rest = rest[n:]
		}
		if out.String() != "3456" || p.left != 0 {
			t.Errorf("pieces of %d: %q, %d left", piece, out.String(), p.left)
		}
	}
}

// TestCutOff: a reader that ends within a frame. The frames before its chunk are converted.
func TestCutOff(t *testing.T) {
	in := noise(80, 64, 36)
	in = in[:len(in)-1000]
	var out bytes.Buffer
	n, err := sizes[0].convert(context.Background(), openGPU(t), io.MultiReader(bytes.NewReader(in)), &out, 64, 36)
	want := reference(in[:n*64*36*3/2], 64, 36)
	if !errors.Is(err, io.ErrUnexpectedEOF) || n == 0 || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d frames, %d bytes, want %d, error %v", n, out.Len(), len(want), err)
	}
}

// TestCompiled compiles the source and compares with the committed PTX, bit by bit.
func TestCompiled(t *testing.T) {
	r := compiletest.File(t, "nv12.cu", nil)
	config := ferry.Cover2D(34, 18, 32, 8)
	config.Grid.Z = 2
	kerneltest.Run(t, &kerneltest.Case{
		File: "nv12.ptx", Kernel: "rgb", Other: r.PTX,
		Args:    []string{"in:u8=random[2*34*27]", "out:u8=[2*34*54]", "s32=34", "s32=18"},
		Configs: func(int) []ferry.LaunchConfig { return []ferry.LaunchConfig{config} },
		Want: func(a *kerneltest.Args) {
			copy(kerneltest.Slice[uint8](a, 1), reference(kerneltest.Slice[uint8](a, 0), 34, 18))
		},
	})
}

// TestOutputIsInput: an output that is the input is refused, and the input stays.
func TestOutputIsInput(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in")
	want := bytes.Repeat([]byte{16}, 64*36*3/2)
	if err := os.WriteFile(in, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []options{{out: in}, {ppm: in}} {
		o.device, o.size, o.in = "soft", "64x36", in
		if err := run(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
		if got, err := os.ReadFile(in); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v: the input has %d bytes now (%v)", o, len(got), err)
		}
	}
}
