package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/klauspost/compress/zstd"
)

// file writes fatbins for tests.
type file struct{ body []byte }

// add adds an entry with the given compression flag, or none.
func (f *file) add(kind Kind, arch int, flag uint64, code []byte) *file {
	stored, header := code, make([]byte, entryBytes+8) // a header may be longer than what is known of it
	switch flag {
	case flagLZ4:
		stored = packLZ4(code)
	case flagZstandard:
		w, _ := zstd.NewWriter(nil)
		stored = w.EncodeAll(code, nil)
	}
	padded := bytes.Clone(stored)
	for len(padded)%8 != 0 {
		padded = append(padded, 0)
	}
	put := binary.LittleEndian
	put.PutUint16(header, uint16(kind))
	put.PutUint16(header[2:], 0x101)
	put.PutUint32(header[4:], uint32(len(header)))
	put.PutUint64(header[8:], uint64(len(padded)))
	put.PutUint32(header[28:], uint32(arch))
	put.PutUint64(header[40:], flag|0x11)
	if flag != 0 {
		put.PutUint32(header[16:], uint32(len(stored)))
		put.PutUint64(header[56:], uint64(len(code)))
	}
	f.body = append(append(f.body, header...), padded...)
	return f
}

// bytes returns the fatbin.
func (f *file) bytes() []byte {
	out := binary.LittleEndian.AppendUint32(nil, magic)
	out = binary.LittleEndian.AppendUint16(out, 1)
	out = binary.LittleEndian.AppendUint16(out, headerBytes)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(f.body)))
	return append(out, f.body...)
}

// packLZ4 compresses a block of LZ4 with the first match of four bytes that it finds.
func packLZ4(src []byte) []byte {
	var out []byte
	at, from := map[string]int{}, 0
	emit := func(literals []byte, distance, match int) {
		token := min(len(literals), 15) << 4
		if distance > 0 {
			token |= min(match-4, 15)
		}
		out = append(appendLength(append(out, byte(token)), len(literals)), literals...)
		if distance > 0 {
			out = appendLength(append(out, byte(distance), byte(distance>>8)), match-4)
		}
	}
	for i := 0; i+4 <= len(src); {
		key := string(src[i : i+4])
		j, ok := at[key]
		at[key] = i
		if !ok || i-j > 65535 {
			i++
			continue
		}
		n := 4
		for i+n < len(src) && src[j+n] == src[i+n] {
			n++
		}
		emit(src[from:i], i-j, n)
		i += n
		from = i
	}
	emit(src[from:], 0, 0)
	return out
}

func appendLength(b []byte, n int) []byte {
	if n -= 15; n < 0 {
		return b
	}
	for ; n >= 255; n -= 255 {
		b = append(b, 255)
	}
	return append(b, byte(n))
}

// ptxFor returns a text that compresses well in parts and not in others.
func ptxFor(arch int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 8.0\n.target sm_%d\n.address_size 64\n//%s\n", arch, strings.Repeat("-", 1000))
	for i := range 300 {
		fmt.Fprintf(&b, ".visible .entry k%d() { ret; } // %x\n", i, i*i*7919)
	}
	return []byte(b.String())
}

func TestData(t *testing.T) {
	for name, flag := range map[string]uint64{"plain": 0, "LZ4": flagLZ4, "Zstandard": flagZstandard} {
		t.Run(name, func(t *testing.T) {
			image := new(file).add(PTX, 80, flag, ptxFor(80)).add(Cubin, 90, flag, []byte("\x7fELF cubin")).bytes()
			list, err := Entries(image)
			if err != nil || len(list) != 2 {
				t.Fatalf("%d entries, %v", len(list), err)
			}
			for i, want := range [][]byte{ptxFor(80), []byte("\x7fELF cubin")} {
				got, err := list[i].Data()
				if err != nil || !bytes.HasPrefix(got, want) || len(got) > len(want)+7 {
					t.Errorf("%v: %.40q of %d bytes, %v, want %d bytes", &list[i], got, len(got), err, len(want))
				}
			}
		})
	}
}

func TestChoose(t *testing.T) {
	all := new(file)
	for _, arch := range []int{52, 90, 80, 120, 100} {
		all.add(Cubin, 90, 0, []byte("\x7fELF")).add(PTX, arch, 0, ptxFor(arch))
	}
	for arch, want := range map[int]int{52: 52, 79: 52, 80: 80, 89: 80, 90: 90, 99: 90, 121: 120, 30: 52} {
		e, err := Choose(all.bytes(), arch)
		if err != nil || e.Arch != want {
			t.Errorf("sm_%d: %v, %v, want PTX for sm_%d", arch, e, err, want)
		}
	}
	none := new(file).add(Cubin, 80, 0, []byte("x")).add(Cubin, 90, 0, []byte("x")).add(Cubin, 90, 0, []byte("x")).bytes()
	_, err := Choose(none, 90)
	if e, ok := errors.AsType[*NoPTXError](err); !ok || len(e.Has) != 2 || !strings.Contains(err.Error(), "machine code (cubin) for sm_90") || !strings.Contains(err.Error(), "code=compute_80") {
		t.Errorf("error %v", err)
	}
}

// TestDamaged changes each number of the headers and cuts the file at each length.
func TestDamaged(t *testing.T) {
	for _, flag := range []uint64{0, flagLZ4, flagZstandard} {
		whole := new(file).add(PTX, 80, flag, ptxFor(80)[:1500]).bytes()
		for n := range len(whole) {
			if e, err := Choose(whole[:n], 90); err == nil {
				t.Fatalf("cut at %d of %d bytes: %v", n, len(whole), e)
			}
		}
		for i := range headerBytes + entryBytes {
			for _, v := range []byte{0, 1, 0x7f, 0xff} {
				image := bytes.Clone(whole)
				image[i] = v
				useAll(image)
			}
		}
	}
}

// useAll does with an image all that a caller can do.
func useAll(image []byte) {
	_, _ = Choose(image, 90)
	list, _ := Entries(image)
	for i := range list {
		if data, err := list[i].Data(); err == nil && len(data) > maxData+len(image) {
			panic("too much data")
		}
	}
	_ = DescribeELF(image)
}

// TestBombs: data that decompresses to more than the file says, or to more than its compressed
// size allows, is refused before it takes memory.
func TestBombs(t *testing.T) {
	big := make([]byte, 32<<20)
	for _, flag := range []uint64{flagLZ4, flagZstandard} {
		image := new(file).add(PTX, 80, flag, big).bytes()
		for _, size := range []uint64{0, 100, 32<<20 - 1, 32 << 20, 32<<20 + 1, maxData + 1, 1 << 63} {
			binary.LittleEndian.PutUint64(image[headerBytes+56:], size)
			e, err := Choose(image, 90)
			if err != nil {
				t.Fatal(err)
			}
			if data, err := e.Data(); err == nil {
				t.Errorf("flag %#x: %d bytes where the file says %d", flag, len(data), size)
			}
		}
	}
}

func TestDescribeELF(t *testing.T) {
	elf := append([]byte("\x7fELF\x02\x01\x01\x33\x07"), make([]byte, 55)...)
	elf[18], elf[48], elf[50] = 190, 0x5a, 0x5a
	if got, want := DescribeELF(elf), "machine code for sm_90 (a cubin)"; got != want || IsHostELF(elf) {
		t.Errorf("%s, want %s", got, want)
	}
	elf[8], elf[48], elf[49] = 8, 4, 120
	if got, want := DescribeELF(elf), "machine code for sm_120 (a cubin)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	elf[18] = 62
	if got := DescribeELF(elf); !strings.Contains(got, "host") || !IsHostELF(elf) || !IsArchive([]byte("!<arch>\nx")) {
		t.Error(got)
	}
}

// words returns PTX without comments, with one blank between words.
func words(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "//")
		b.WriteString(line + " ")
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFilesOfNVCC reads fatbins that nvcc wrote. Their PTX is that of nvcc -ptx, and their
// machine code is the same in every compression.
func TestFilesOfNVCC(t *testing.T) {
	ptx, cubins := words(testdata(t, "k.ptx")), map[string]string{}
	for name, want := range map[string]string{
		"none":    "PTX for sm_80 0, machine code (cubin) for sm_90 0, PTX for sm_90 0",
		"default": "PTX for sm_80 0x8000, machine code (cubin) for sm_90 0, PTX for sm_90 0x8000",
		"speed":   "PTX for sm_80 0x2000, machine code (cubin) for sm_90 0, PTX for sm_90 0x2000",
		"size":    "PTX for sm_80 0x8000, machine code (cubin) for sm_90 0x8000, PTX for sm_90 0x8000",
		"all":     "PTX for sm_80 0x8000, machine code (cubin) for sm_90 0x8000, PTX for sm_90 0x8000",
		"cubin":   "machine code (cubin) for sm_90 0",
	} {
		t.Run(name, func(t *testing.T) {
			image := testdata(t, name+".fatbin")
			list, err := Entries(image)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range list {
				e := &list[i]
				got = append(got, fmt.Sprintf("%v %#x", e, e.flags&(flagOldCompression|flagLZ4|flagZstandard)))
				data, err := e.Data()
				if err != nil {
					t.Error(err)
				} else if e.Kind == Cubin {
					cubins[name] = string(data)
				} else if want := strings.Replace(ptx, "sm_80", fmt.Sprintf("sm_%d", e.Arch), 1); words(data) != want {
					t.Errorf("%v:\n%s\nwant:\n%s", e, words(data), want)
				}
			}
			if got := strings.ReplaceAll(strings.Join(got, ", "), "0x0", "0"); got != want {
				t.Errorf("entries %s, want %s", got, want)
			}
			e, err := Choose(image, 90)
			if (err == nil) != (name != "cubin") || err == nil && e.Arch != 90 {
				t.Errorf("for sm_90: %v, %v", e, err)
			}
		})
	}
	for name, data := range cubins {
		if data != cubins["cubin"] && data != cubins["none"] || DescribeELF([]byte(data)) != "machine code for sm_90 (a cubin)" {
			t.Errorf("%s: %d bytes: %s", name, len(data), DescribeELF([]byte(data)))
		}
	}
}

func FuzzEntries(f *testing.F) {
	for _, flag := range []uint64{0, flagLZ4, flagZstandard} {
		f.Add(new(file).add(PTX, 80, flag, ptxFor(80)[:300]).bytes())
	}
	f.Add([]byte("\x50\xed\x55\xba"))
	files, err := filepath.Glob("testdata/*.fatbin")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		image, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		hostile.Check(t, "decompress all", func() { useAll(image) })
	})
}

func FuzzLZ4(f *testing.F) {
	f.Add([]byte(strings.Repeat("abcdefgh", 40)))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := lz4(packLZ4(text), len(text))
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%q becomes %q, %v", text, got, err)
		}
		if got, err := lz4(text, 100); err == nil && len(got) != 100 {
			t.Fatalf("%d bytes, want 100", len(got))
		}
	})
}
