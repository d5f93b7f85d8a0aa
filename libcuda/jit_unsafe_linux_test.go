//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// jitSeen is what C sees of the options: their values by name, and the logs.
type jitSeen map[cu.JITOption]uintptr

// seenJIT reads the arrays of options as C does.
func seenJIT(count, names, values uintptr) jitSeen {
	seen := jitSeen{}
	for i, name := range unsafe.Slice(at[cu.JITOption](names), int(count)) {
		seen[name] = unsafe.Slice(at[uintptr](values), int(count))[i]
	}
	return seen
}

// log writes a text with its final zero to one of the logs, cut to the buffer as the
// driver does.
func (s jitSeen) log(buffer cu.JITOption, text string) {
	b := unsafe.Slice(at[byte](s[buffer]), int(s[buffer+1]))
	n := copy(b[:len(b)-1], text)
	b[n] = 0
}

// plain returns the options without the addresses of the logs.
func (s jitSeen) plain() map[cu.JITOption]uintptr {
	out := maps.Clone(map[cu.JITOption]uintptr(s))
	delete(out, cu.JITInfoLogBuffer)
	delete(out, cu.JITErrorLogBuffer)
	return out
}

func TestModuleOptions(t *testing.T) {
	all := &cu.JITOptions{MaxRegisters: 32, OptimizationLevel: new(uint32), DebugInfo: true, LineInfo: true, Verbose: true,
		InfoLogBytes: 8, ErrorLogBytes: 100}
	for name, c := range map[string]struct {
		options *cu.JITOptions
		want    map[cu.JITOption]uintptr
		log     string
	}{
		"none":  {nil, map[cu.JITOption]uintptr{4: 16384, 6: 16384}, "ptxas info"},
		"zero":  {new(cu.JITOptions), map[cu.JITOption]uintptr{4: 16384, 6: 16384}, "ptxas info"},
		"all":   {all, map[cu.JITOption]uintptr{4: 8, 6: 100, 0: 32, 7: 0, 11: 1, 12: 1, 13: 1}, "ptxas i"},
		"level": {&cu.JITOptions{OptimizationLevel: new(uint32(3))}, map[cu.JITOption]uintptr{4: 16384, 6: 16384, 7: 3}, "ptxas info"},
	} {
		t.Run(name, func(t *testing.T) {
			f, d := newFake(t)
			f.on("cuModuleLoadDataEx", func(a []uintptr) cu.Result {
				seen := seenJIT(a[2], a[3], a[4])
				if got := seen.plain(); !maps.Equal(got, c.want) {
					t.Errorf("options %v, want %v", got, c.want)
				}
				seen.log(cu.JITInfoLogBuffer, "ptxas info")
				store(a[0], cu.Module(0x41))
				return cu.Success
			})
			module, log, err := d.ModuleLoadDataEx(1, []byte("x"), c.options)
			if module != 0x41 || log != c.log || err != nil {
				t.Errorf("module %#x, log %q, %v, want log %q", module, log, err, c.log)
			}
		})
	}
}

// TestLink makes a link with two inputs. The driver keeps the addresses of the logs from
// its begin to its end.
func TestLink(t *testing.T) {
	f, d := newFake(t)
	code := []byte("\x7fELF linked")
	var seen jitSeen
	var inputs []string
	f.on("cuLinkCreate", func(a []uintptr) cu.Result {
		seen = seenJIT(a[0], a[1], a[2])
		store(a[3], cu.LinkState(0x51))
		return cu.Success
	})
	f.on("cuLinkAddData", func(a []uintptr) cu.Result {
		data := unsafe.Slice(at[byte](a[2]), int(a[3]))
		inputs = append(inputs, strings.Join([]string{text(a[4]), string(data)}, "="))
		if a[0] != 0x51 || a[5] != 0 {
			t.Errorf("link %#x, %d options", a[0], a[5])
		}
		if a[1] == uintptr(cu.JITInputPTX) && data[len(data)-1] != 0 {
			t.Error("PTX without a zero byte at the end")
		}
		if text(a[4]) == "bad" {
			seen.log(cu.JITErrorLogBuffer, "ptxas fatal")
			seen.log(cu.JITInfoLogBuffer, "ptxas info") // written last: the error has the text of the other buffer
			return cu.ErrorInvalidPTX
		}
		return cu.Success
	})
	f.on("cuLinkComplete", func(a []uintptr) cu.Result {
		store(a[1], unsafe.Pointer(&code[0]))
		store(a[2], uintptr(len(code)))
		seen.log(cu.JITInfoLogBuffer, "nvlink info")
		return cu.Success
	})
	link, err := d.LinkCreate(1, &cu.JITOptions{MaxRegisters: 24})
	if link != 0x51 || err != nil || seen[cu.JITMaxRegisters] != 24 {
		t.Fatalf("link %#x, %v, options %v", link, err, seen)
	}
	if err := errors.Join(d.LinkAddData(1, link, cu.JITInputPTX, []byte("p"), "a"), d.LinkAddData(1, link, cu.JITInputCubin, []byte("c"), "b")); err != nil {
		t.Error(err)
	}
	if want := []string{"a=p\x00", "b=c"}; !slices.Equal(inputs, want) {
		t.Errorf("inputs %q, want %q", inputs, want)
	}
	err = d.LinkAddData(1, link, cu.JITInputPTX, []byte("p"), "bad")
	if jit, ok := errors.AsType[*cu.JITError](err); !ok || jit.Log != "ptxas fatal" || !strings.HasPrefix(err.Error(), "link bad: CUDA_ERROR_INVALID_PTX") {
		t.Errorf("error %v, want the log and the name", err)
	}
	image, log, err := d.LinkComplete(1, link)
	if string(image) != string(code) || &image[0] == &code[0] || log != "nvlink info" || err != nil {
		t.Errorf("image %q, log %q, %v", image, log, err)
	}
	f.take()
	if err := d.LinkDestroy(1, link); err != nil || !slices.ContainsFunc(f.take(), func(c fakeCall) bool { return c.symbol == "cuLinkDestroy" && c.args[0] == 0x51 }) {
		t.Errorf("destroy: %v", err)
	}
}

// TestLinkDestroyedAgain: a link that the driver does not destroy can be destroyed again. The
// driver may give the handle of a link that ended with its context to another one: the garbage
// collector would end the process if the memory of the first stayed pinned.
func TestLinkDestroyedAgain(t *testing.T) {
	f, d := newFake(t)
	f.on("cuLinkCreate", func(a []uintptr) cu.Result { store(a[3], cu.LinkState(0x51)); return cu.Success })
	refuse := true
	f.on("cuLinkDestroy", func([]uintptr) cu.Result {
		if refuse {
			return cu.ErrorUnknown
		}
		return cu.Success
	})
	for range 2 {
		if _, err := d.LinkCreate(1, nil); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.GC()
	}
	for _, want := range []error{cu.ErrorUnknown, nil, cu.ErrorInvalidHandle} {
		if err := d.LinkDestroy(1, 0x51); err != want {
			t.Errorf("got %v, want %v", err, want)
		}
		refuse = false
	}
}

// TestLinkErrors: a link that is not in progress never reaches the driver, which would
// follow the handle.
func TestLinkErrors(t *testing.T) {
	f, d := newFake(t)
	for name, err := range map[string]error{
		"add":      d.LinkAddData(1, 0x51, cu.JITInputPTX, []byte("p"), "a"),
		"complete": func() error { _, _, err := d.LinkComplete(1, 0x51); return err }(),
		"destroy":  d.LinkDestroy(1, 0x51),
	} {
		if err != cu.ErrorInvalidHandle {
			t.Errorf("%s: %v, want CUDA_ERROR_INVALID_HANDLE", name, err)
		}
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("calls %v", calls)
	}
	f.on("cuLinkCreate", func([]uintptr) cu.Result { return cu.ErrorInvalidValue })
	if _, err := d.LinkCreate(1, nil); err != cu.ErrorInvalidValue {
		t.Errorf("create: %v", err)
	}
	f.on("cuLinkCreate", func(a []uintptr) cu.Result { store(a[3], cu.LinkState(9)); return cu.Success })
	f.on("cuLinkComplete", func([]uintptr) cu.Result { return cu.ErrorUnknown })
	link, err := d.LinkCreate(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.LinkAddData(1, link, cu.JITInputPTX, nil, "empty"); err != cu.ErrorInvalidImage {
		t.Errorf("empty input: %v", err)
	}
	if _, _, err := d.LinkComplete(1, link); err != cu.ErrorUnknown {
		t.Errorf("complete: %v", err)
	}
	if err := d.LinkDestroy(1, link); err != nil {
		t.Errorf("destroy: %v", err)
	}
}
