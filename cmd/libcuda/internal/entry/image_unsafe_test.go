package entry

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// Unsafe: An image is handed over as C does, by its address alone. Other bytes follow it.

// TestImageSize finds where images end that have no length.
func TestImageSize(t *testing.T) {
	fatbins, err := filepath.Glob("../../../../internal/fatbin/testdata/*.fatbin")
	if err != nil || len(fatbins) == 0 {
		t.Fatalf("no fatbins in internal/fatbin/testdata (%v)", err)
	}
	images := map[string][]byte{"text": []byte(".version 7.0\n.target sm_52\n"), "one letter": []byte("P"), "linked": linkedImage(t)}
	for _, path := range fatbins {
		if images[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	elf := make([]byte, 64+3*56+1000+5*64)
	copy(elf, "\x7fELF")
	binary.LittleEndian.PutUint64(elf[32:], 64) // program headers
	binary.LittleEndian.PutUint16(elf[54:], 56)
	binary.LittleEndian.PutUint16(elf[56:], 3)
	binary.LittleEndian.PutUint64(elf[40:], 64+3*56+1000) // sections
	binary.LittleEndian.PutUint16(elf[58:], 64)
	binary.LittleEndian.PutUint16(elf[60:], 5)
	images["ELF"] = elf
	for name, want := range images {
		memory := append(bytes.Clone(want), 0)
		memory = append(memory, "\xffand what follows"...)
		got, err := image(unsafe.Pointer(&memory[0]))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes (%v), want %d", name, len(got), err, len(want))
		}
		// In a program of nvcc a wrapper has the address.
		wrapper := new(struct {
			magic, version uint32
			data           unsafe.Pointer
			name           unsafe.Pointer
		})
		wrapper.magic, wrapper.version, wrapper.data = magicWrapper, 1, unsafe.Pointer(&memory[0])
		if got, err := image(unsafe.Pointer(wrapper)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s in a wrapper: %d bytes (%v), want %d", name, len(got), err, len(want))
		}
		runtime.KeepAlive(memory)
	}
	for _, wrong := range []unsafe.Pointer{nil, unsafe.Add(nil, 8)} {
		if _, err := image(wrong); err != cu.ErrorInvalidValue {
			t.Errorf("address %v: %v, want %v", wrong, err, cu.ErrorInvalidValue)
		}
	}
}

// linkedImage returns what the linker of the software GPU makes.
func linkedImage(t *testing.T) []byte {
	t.Helper()
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ok(d.Init(0))
	ctx, err := d.CtxCreate(0, 0)
	ok(err)
	link, err := d.LinkCreate(ctx, &cu.JITOptions{MaxRegisters: 300})
	ok(err)
	const head = ".version 7.0\n.target sm_52\n.address_size 64\n"
	ok(d.LinkAddData(ctx, link, cu.JITInputPTX, []byte(head+".visible .entry a() { ret; }\n"), "a"))
	ok(d.LinkAddData(ctx, link, cu.JITInputPTX, []byte(head+".visible .entry b() { ret; }\n"+string(bytes.Repeat([]byte("// long\n"), 100))), ""))
	code, _, err := d.LinkComplete(ctx, link)
	ok(err)
	return code
}

func TestSamePCI(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"0000:1a:00.0", "0000:1A:00.0", true},
		{"0000:1a:00.0", "1a:00.0", true},
		{"0000:1a:00.0", "0:1a:0", true},
		{"0000:1a:00.0", "0000:1b:00.0", false},
		{"0001:1a:00.0", "1a:00.0", false},
		{"0000:1a:00.0", "0000:1a:00.1", false},
		{"0000:1a:00.0", "", false},
		{"0000:1a:00.0", "bus", false},
		{"0000:1a:00.0", "0000:1a:zz.0", false},
	} {
		if got := samePCI(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %t, want %t", c.a, c.b, got, c.same)
		}
	}
}
