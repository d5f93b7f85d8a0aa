package oracle

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
)

// refusedByCompiler marks forms in hashes.txt that ptxas does not compile for the
// GPU.
const refusedByCompiler = "-"

// readGoldens reads the recorded results, by form.
func readGoldens(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if form, rest, ok := strings.Cut(s.Text(), " "); ok && form != "#" {
			out[form] = rest
		}
	}
	return out
}

// isApproximate reports whether the hardware interpolates the results of a form from
// tables.
func isApproximate(f form) bool {
	switch f.op {
	case "sin", "cos", "lg2", "ex2", "tanh":
		return true
	case "rcp", "sqrt", "rsqrt", "div":
		return f.any("approx", "full") != "" || f.op == "rsqrt"
	}
	return false
}

// TestForms runs every form that the software GPU accepts. The result must equal that of
// the GPU bit for bit. If the compiler refuses a form, the result must equal that of the
// form which replaced it, or of exact arithmetic. A form without a record needs exact arithmetic.
func TestForms(t *testing.T) {
	hashes := readGoldens(t, "hashes.txt")
	approximations := readGoldens(t, "approximations.txt")
	forms := ptxforms.Forms()
	count := map[string]int{}
	for _, text := range sample.OfEach(t, forms, operation, 8) {
		k, ok := kernelOf(text)
		if !ok {
			t.Errorf("%s: no kernel tests this form", text)
			continue
		}
		out, err := runSoft(k)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want, recorded := hashes[text]
		switch {
		case isApproximate(k.form) && approximations[text] != "":
			count["approximate"]++
			checkApproximate(t, k, out, approximations[text])
		case recorded && want != refusedByCompiler:
			count["recorded"]++
			if hash(out) != want {
				t.Errorf("%s: the result differs from the GPU", text)
			}
		case !recorded && exactFor(k.form) != nil:
			count["not recorded"]++
		default:
			count["not compiled"]++
			checkEquivalent(t, k, out)
		}
		if checkExact(t, k, out) {
			count["exact"]++
		}
	}
	t.Logf("%d forms: %v", len(forms), count)
}

// operation returns the first word of a form, such as "cvt".
func operation(form string) string {
	op, _, _ := strings.Cut(form, ".")
	return op
}

// equivalent returns the form that does the same as a form that compilers no longer
// write.
func equivalent(f form) string {
	mods := slices.Clone(f.mods)
	switch {
	case f.op == "cvt" && f.has("sat"):
		mods = slices.DeleteFunc(mods, func(m string) bool { return m == "sat" })
	case f.op == "cvt" && f.typ(0) == "f32":
		mods = append([]string{"rn"}, mods...)
	case f.op == "cvt":
		mods = append([]string{"rzi"}, mods...)
	case f.op == "barrier" && f.has("cluster"):
		return "bar.sync"
	case slices.Contains([]string{"fma", "mad", "div", "sqrt", "rcp"}, f.op):
		mods = append([]string{"rn"}, mods...)
	case isApproximate(f):
		mods = append([]string{"approx"}, mods...)
	case f.op == "shfl" || f.op == "vote":
		mods = append([]string{"sync"}, mods...)
	case f.op == "mul":
		mods = append([]string{"lo"}, mods...)
	case f.op == "atom":
		mods[len(mods)-1] = "b" + mods[len(mods)-1][1:]
	default:
		return ""
	}
	return f.op + "." + strings.Join(mods, ".")
}

func checkEquivalent(t *testing.T, k *kernel, out []byte) {
	t.Helper()
	if expect := trivialResult(k); expect != nil {
		if !bytes.Equal(out, expect) {
			n, i := differences(out, expect)
			t.Errorf("%s: %d threads wrong; thread %d: %s", k.form.text, n, i, k.describe(i, expect, out))
		}
		return
	}
	name := equivalent(k.form)
	other, ok := kernelOf(name)
	if !ok {
		t.Errorf("%s: not recorded, and no form is equivalent", k.form.text)
		return
	}
	want, err := runSoft(other)
	if err != nil || !bytes.Equal(out, want) {
		t.Errorf("%s: the result differs from %s (%v)", k.form.text, name, err)
	}
}

// trivialResult returns the result of forms that need no arithmetic: moves of 256 bits,
// addresses that do not change, and instructions without effect. It returns nil for
// other forms.
func trivialResult(k *kernel) []byte {
	f := k.form
	out := poisoned(threads * outBytes)
	each := func(set func(i int, b []byte)) []byte {
		for i := range threads {
			set(i, out[i*outBytes:(i+1)*outBytes])
		}
		return out
	}
	operand := func(i int, b []byte) {
		n := classBits(k.in[0].class) / 8
		for j := range k.in[0].n {
			v := input(k.in[0].class, 0, j, i)
			for x := range n {
				b[j*n+x] = byte(v >> (8 * x))
			}
		}
	}
	switch {
	case f.op == "cvta" && f.typ(0) == "u32", f.op == "ld", f.op == "st", f.op == "mapa":
		return each(operand)
	case f.op == "getctarank": // of a cluster of one block
		return each(func(_ int, b []byte) { clear(b[:8]) })
	case f.op == "setmaxnreg":
		return each(func(_ int, b []byte) { copy(b, []byte{1, 0, 0, 0}) })
	}
	return nil
}

// checkApproximate compares a result with that of the GPU.
func checkApproximate(t *testing.T, k *kernel, out []byte, recorded string) {
	t.Helper()
	hard, err := hex.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	n := typeBits[k.form.last()] / 8
	for i := range threads {
		if got, want := out[i*outBytes:i*outBytes+n], hard[i*n:(i+1)*n]; !bytes.Equal(got, want) {
			t.Errorf("%s: thread %d: operand %#x: got %x, the GPU %x", k.form.text, i, input(k.in[0].class, 0, 0, i), got, want)
			return
		}
	}
}

func word64(b []byte, n int) uint64 {
	var v uint64
	for i := range n {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}
