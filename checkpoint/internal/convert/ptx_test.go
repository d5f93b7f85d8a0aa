package convert

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

var update = flag.Bool("update", false, "compile convert.cu and write convert.ptx")

// arch is the oldest architecture whose instructions the kernels use.
const arch = "sm_75"

// TestPTX compares the source with the hash that convert.ptx records, and compiles it again with the
// same compiler if that is there. With -update it writes convert.ptx.
func TestPTX(t *testing.T) {
	source, err := os.ReadFile("convert.cu")
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(source))
	if !*update && !strings.Contains(ptx, sum) {
		t.Errorf("convert.ptx is not of this convert.cu: run go test ./checkpoint/internal/convert -run TestPTX -update")
	}
	r, err := compiletest.Source(t.Context(), "convert.cu", source, &compile.Options{Arch: arch})
	compiletest.Check(t, err)
	if len(r.Warnings) > 0 {
		t.Errorf("the compiler warns: %s", r.Log)
	}
	text := fmt.Sprintf("// Made of convert.cu (sha256 %s) by %s: doc.go has the command.\n%s", sum, r.Compiler, lower(r.PTX))
	switch {
	case *update:
		if err := os.WriteFile("convert.ptx", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case strings.Contains(ptx, r.Compiler) && text != ptx:
		t.Errorf("convert.ptx is not what %s makes of convert.cu: run go test ./checkpoint/internal/convert -run TestPTX -update", r.Compiler)
	}
}

// lower removes comments, which are a quarter of the text, and lowers the ISA version to what the
// instructions need, so that drivers since CUDA 10 take them.
func lower(ptx []byte) []byte {
	ptx = regexp.MustCompile(`[ \t]*//.*`).ReplaceAll(ptx, nil)
	ptx = regexp.MustCompile(`\n(\s*\n)+`).ReplaceAll(ptx, []byte("\n"))
	ptx = regexp.MustCompile(`(?m)^\.version .*$`).ReplaceAll(ptx, []byte(".version 6.3"))
	return bytes.TrimLeft(ptx, "\n")
}

// TestSplit finds each kernel in the text, and nothing outside of kernels that they could use.
func TestSplit(t *testing.T) {
	head, kernels := split(ptx)
	want := []string{"hash"}
	for _, p := range Pairs() {
		want = append(want, p.kernel())
	}
	var got []string
	for name, text := range kernels {
		got = append(got, name)
		if strings.Count(text, ".entry") != 1 || strings.Contains(text, "\n.global") || strings.Contains(text, ".func") {
			t.Errorf("kernel %s has more than itself: %.200q", name, text)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the kernels are %q, want %q", got, want)
	}
	if !strings.Contains(head, ".target "+arch) || strings.Contains(head, ".global") {
		t.Errorf("the text before the kernels is %q", head)
	}
}
