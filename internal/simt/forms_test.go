package simt

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// asInstruction is an opcode with its modifiers as the parser gives it.
func asInstruction(text string) *ptx.Instr {
	parts := strings.Split(text, ".")
	for i, m := range parts {
		if strings.HasPrefix(m, "const[") {
			parts[i] = "const"
		}
	}
	return &ptx.Instr{Op: parts[0], Mods: parts[1:]}
}

// refusedInTheWild are opcodes of real files that are not run, and why not.
var refusedInTheWild = map[string]string{
	"tex": "texture", "txq": "texture", "suld": "surface", "sust": "surface", "sured": "surface", "suq": "surface",
	"vshr": "video",
}

// oddInTheWild are no valid PTX, or none that a compiler would take: each was in one
// of the files.
var oddInTheWild = []string{
	"atom.global.sub.u32", "ld.global.v8.u8", "st.global.v8.u8", "mov.v8.u16",
}

// TestOpcodesOfRealFiles asks for every opcode that 450 public PTX files had, with
// the number of files that have it.
func TestOpcodesOfRealFiles(t *testing.T) {
	f, err := os.Open("testdata/opcodes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	odd := map[string]bool{}
	for _, o := range oddInTheWild {
		odd[o] = true
	}
	run, refused := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		text, files, _ := strings.Cut(s.Text(), "\t")
		n, err := strconv.Atoi(files)
		if err != nil {
			continue // the heading
		}
		in := asInstruction(text)
		_, decodes := decoders[in.Op]
		accepted := decodes && checkForm(in) == nil
		if accepted {
			run += n
		} else {
			refused += n
		}
		switch why := refusedInTheWild[in.Op]; {
		case why != "" && (accepted || !strings.Contains(refusal(in), why)):
			t.Errorf("%s: accepted %v, reason %q, want it to speak of %s", text, accepted, refusal(in), why)
		case why == "" && accepted == odd[text]:
			t.Errorf("%s, in %d files: accepted %v (%v)", text, n, accepted, checkForm(in))
		}
	}
	t.Logf("%d uses run, %d are refused", run, refused)
	if run < 40*refused {
		t.Errorf("%d uses run, %d are refused", run, refused)
	}
}

// TestUnknownModifiers: what is not understood is refused, and named.
func TestUnknownModifiers(t *testing.T) {
	for text, want := range map[string]string{
		"add.rn.f32":     "",
		"add.ftz.rn.f32": "",
		"add.oob.f32":    ".oob",
		"add.f32.f32":    ".f32",
		"fma.rn.oob.f16": ".oob",
		"ld.global.L1::no_allocate.L2::128B.v4.f32": "",
		"ld.global.cta.f32":                         ".cta",
		"red.async.relaxed.cluster.global.add.u32":  ".async",
		"cvt.rn.satfinite.e2m1x2.f32":               ".e2m1x2",
		"atom.global.v2.add.f32":                    ".v2",
		"redux.sync.min.NaN.f32":                    ".NaN",
		"mul.f32.f64":                               ".f64",
	} {
		err := checkForm(asInstruction(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestRefusalShowsThePlace: what is refused is refused at the launch of a kernel that
// can reach it, with file, line, column and a caret.
func TestRefusalShowsThePlace(t *testing.T) {
	const source = `.version 8.0
.target sm_90a
.address_size 64
.func waits() {
	wgmma.fence.sync.aligned;
	ret;
}
.visible .entry fine() { ret; }
.visible .entry calls() {
	call waits, ();
	ret;
}
`
	m := load(t, newSpace(), "k.ptx", source)
	if err := m.Kernel("fine").Unsupported; err != nil {
		t.Errorf("a kernel that cannot reach it is refused: %v", err)
	}
	_, err := Run(context.Background(), m.launch(t, "calls", 1, 1))
	const want = "k.ptx:5:2: kernel calls: wgmma.fence.sync.aligned: asynchronous matrix operations of sm_90a are not supported: CUDA_ERROR_NOT_SUPPORTED\n" +
		"\twgmma.fence.sync.aligned;\n\t^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
