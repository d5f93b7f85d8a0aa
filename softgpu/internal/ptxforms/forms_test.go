package ptxforms

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// asInstruction returns an opcode with its modifiers as the parser does.
func asInstruction(text string) *ptx.Instr {
	parts := strings.Split(text, ".")
	for i, m := range parts {
		if strings.HasPrefix(m, "const[") {
			parts[i] = "const"
		}
	}
	return &ptx.Instr{Op: parts[0], Mods: parts[1:]}
}

// refusedInTheWild are opcodes of real files that do not run, and the reason.
var refusedInTheWild = map[string]string{
	"tex": "texture", "txq": "texture", "suld": "surface", "sust": "surface", "sured": "surface", "suq": "surface",
}

// oddInTheWild are opcodes that are not valid PTX, or that no compiler accepts. Each
// was in one of the files.
var oddInTheWild = []string{
	"atom.global.sub.u32", "ld.global.v8.u8", "st.global.v8.u8", "mov.v8.u16",
}

// TestOpcodesOfRealFiles checks every opcode of 450 public PTX files. The table also
// has the number of files with the opcode.
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
		err = Check(in)
		accepted := err == nil
		if accepted {
			run += n
		} else {
			refused += n
		}
		switch why := refusedInTheWild[in.Op]; {
		case why != "" && (accepted || !strings.Contains(err.Error(), why)):
			t.Errorf("%s: got error %v, want one about %s", text, err, why)
		case why == "" && accepted == odd[text]:
			t.Errorf("%s, in %d files: accepted %v (%v)", text, n, accepted, err)
		}
	}
	t.Logf("%d uses run, %d are refused", run, refused)
	if run < 40*refused {
		t.Errorf("%d uses run, %d are refused", run, refused)
	}
}

// TestUnknownModifiers checks that an unknown modifier is refused by name.
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
		err := Check(asInstruction(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
