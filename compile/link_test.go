package compile

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// useLinker makes a fake library the nvJitLink of this machine.
func useLinker(t *testing.T, l *fakeLinker) {
	t.Helper()
	real := findJitLink
	t.Cleanup(func() { findJitLink = real })
	findJitLink = func() (library, error) { return l.call, nil }
}

const linkPTX = ".version 7.0\n.target sm_80\n.address_size 64\n"

// TestFakeLink links inputs of all kinds with a library of each version.
func TestFakeLink(t *testing.T) {
	for _, suffix := range []string{"", "_12_0", "_13_0"} {
		l := &fakeLinker{suffix: suffix, cubin: "\x7fELF cubin\x00", log: "info"}
		useLinker(t, l)
		linked, err := Link(t.Context(), "9.0", []LinkInput{
			{Name: "a", Data: []byte(linkPTX)},
			{Name: "b", Data: []byte(linkPTX + "\x00"), Kind: InputPTX},
			{Name: "c", Data: []byte("\x7fELF...")},
			{Name: "d", Data: []byte("\x50\xed\x55\xba...")},
			{Name: "e", Data: []byte("ir"), Kind: InputLTOIR},
		}, &LinkOptions{LineInfo: true, MaxRegisters: 32})
		if err != nil {
			t.Fatal(err)
		}
		if string(linked.Cubin) != l.cubin || linked.Log != "info" || l.live != 0 {
			t.Errorf("%s: got %+v, %d linkers live", suffix, linked, l.live)
		}
		text := `".version 7.0\n.target sm_80\n.address_size 64\n\x00"`
		want := []string{"2 a " + text, "2 b " + text, `1 c "\x7fELF..."`, `4 d "P\xedU\xba..."`, `3 e "ir"`}
		if !slices.Equal(l.inputs, want) {
			t.Errorf("%s: inputs %q, want %q", suffix, l.inputs, want)
		}
		if want := []string{"-arch=sm_90", "-lineinfo", "-maxrregcount=32", "-lto"}; !slices.Equal(l.options, want) {
			t.Errorf("%s: options %q, want %q", suffix, l.options, want)
		}
	}
}

// TestFakeLinkErrors demands an error with the library's log for each function that fails.
func TestFakeLinkErrors(t *testing.T) {
	for function, want := range map[string]string{
		"nvJitLinkCreate":             "nvJitLinkCreate: unrecognized option (1) (options -arch=sm_80)",
		"nvJitLinkAddData":            "module.ptx: nvJitLinkAddData: unrecognized option (1): undefined symbol f",
		"nvJitLinkComplete":           "link 1 module for sm_80: nvJitLinkComplete: unrecognized option (1): undefined symbol f",
		"nvJitLinkGetLinkedCubinSize": "nvJitLinkGetLinkedCubinSize",
		"nvJitLinkGetLinkedCubin":     "nvJitLinkGetLinkedCubin:",
		"nvJitLinkDestroy":            "nvJitLinkDestroy",
		"nvJitLinkGetInfoLog":         "nvJitLinkGetInfoLog:",
	} {
		l := &fakeLinker{suffix: "_12_0", fail: map[string]int32{function: 1}, log: "undefined symbol f", cubin: "x"}
		useLinker(t, l)
		linked, err := Link(t.Context(), "", []LinkInput{{Name: "module.ptx", Data: []byte(linkPTX)}}, nil)
		if linked != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, error %v; want %q", function, linked, err, want)
		}
	}
	l := &fakeLinker{suffix: "_14_0"}
	useLinker(t, l)
	if _, err := Link(t.Context(), "", []LinkInput{{Data: []byte(linkPTX)}}, nil); err == nil || !strings.Contains(err.Error(), "undefined symbol: nvJitLinkCreate") {
		t.Errorf("unknown names: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	useLinker(t, &fakeLinker{})
	if _, err := Link(ctx, "", []LinkInput{{Data: []byte(linkPTX)}}, nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
}

// TestBadLink demands an error before the library is asked.
func TestBadLink(t *testing.T) {
	for _, c := range []struct {
		arch   string
		inputs []LinkInput
		o      *LinkOptions
		want   string
	}{
		{"", nil, nil, "no inputs"},
		{"x", []LinkInput{{Data: []byte(linkPTX)}}, nil, `architecture "x"`},
		{"", []LinkInput{{Name: "junk", Data: []byte{1, 2, 0, 3}}}, nil, "input 0 (junk): is not PTX, a cubin or a fatbin"},
		{"", []LinkInput{{Data: []byte(linkPTX), Kind: InputCubin}}, nil, "is not cubin"},
		{"", []LinkInput{{Kind: InputLTOIR}}, nil, "is empty"},
		{"", []LinkInput{{Kind: 9}}, nil, "InputKind(9) is not a kind"},
		{"", []LinkInput{{Name: "a\x00", Data: []byte(linkPTX)}}, nil, "zero byte"},
		{"", []LinkInput{{Data: []byte(linkPTX)}}, &LinkOptions{MaxRegisters: -1}, "MaxRegisters -1"},
	} {
		if _, err := Link(t.Context(), c.arch, c.inputs, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestNoJitLink demands an error that says what was tried, and what needs no library.
func TestNoJitLink(t *testing.T) {
	t.Setenv(JitLinkVariable, "lib/libnvJitLink.so")
	if _, err := findJitLink(); err == nil || !strings.Contains(err.Error(), "want an absolute path") {
		t.Errorf("got %v", err)
	}
	t.Setenv(JitLinkVariable, "/nowhere/libnvJitLink.so")
	if _, err := findJitLink(); err == nil || !strings.Contains(err.Error(), "ferry.Link") {
		t.Errorf("got %v", err)
	}
}

// TestNVJitLink links a kernel with a function of another module, with the real library.
func TestNVJitLink(t *testing.T) {
	if _, err := findJitLink(); err != nil {
		if os.Getenv("FERRY_REQUIRE_NVRTC") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	head := ".version 7.0\n.target sm_80\n.address_size 64\n"
	caller := head + ".extern .func (.param .b32 r) answer;\n.visible .entry k(.param .u64 p) {\n" +
		".reg .b64 %d<2>;\n.reg .b32 %r<2>;\nld.param.u64 %d1, [p];\n.param .b32 r;\ncall (r), answer;\nld.param.b32 %r1, [r];\nst.global.u32 [%d1], %r1;\nret;\n}\n"
	callee := head + ".visible .func (.param .b32 r) answer {\nst.param.b32 [r], 42;\nret;\n}\n"
	inputs := []LinkInput{{Name: "caller.ptx", Data: []byte(caller)}, {Name: "callee.ptx", Data: []byte(callee)}}
	linked, err := Link(t.Context(), "sm_90", inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if kindOf(linked.Cubin) != InputCubin {
		t.Errorf("the result does not begin like a cubin: %.20q", linked.Cubin)
	}
	if _, err := Link(t.Context(), "sm_90", inputs[:1], nil); err == nil || !strings.Contains(err.Error(), "nvJitLinkComplete") {
		t.Errorf("without the function: %v", err)
	} else {
		t.Log(err)
	}
	if _, err := Link(t.Context(), "sm_90", []LinkInput{{Name: "bad.ptx", Data: []byte(head + "junk")}}, nil); err == nil || !strings.Contains(err.Error(), "junk") {
		t.Errorf("junk: %v", err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 4 {
				in := inputs[:1+(i+j)%2]
				if linked, err := Link(t.Context(), "sm_90", in, nil); (err == nil) != (len(in) == 2) {
					t.Errorf("%d modules: %v, error %v", len(in), linked, err)
				}
			}
		})
	}
	all.Wait()
}
