package mathtest

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"math"
	"math/big"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

const (
	recordFile = "../../../docs/results/math-ulp.json"
	fewPoints  = 300 // random arguments of each function, by default
)

var update = flag.Bool("update", false, "write the records, the PTX and the table of the document")

// Record is the error of a function, largest of all arguments.
type Record struct {
	Function  string    `json:"function"`
	Type      string    `json:"type"`
	ULP       float64   `json:"ulp"` // largest error in units in the last place of the result
	At        []float64 `json:"at"`  // where
	Arguments int       `json:"arguments"`
	Method    string    `json:"method"` // the type of the arithmetic inside
	Note      string    `json:"note,omitempty"`
	Hidden    bool      `json:"hidden,omitempty"` // not in the table
	Bits      string    `json:"bits"`             // hash of the results for the arguments of the normal test
}

// points returns the number of random arguments.
func points(t testing.TB) int {
	text := os.Getenv("FERRY_MATH_POINTS")
	if text == "" {
		return fewPoints
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal("FERRY_MATH_POINTS: ", err)
	}
	return n
}

// TestAccuracy compares each function with its value in high precision, or with its
// special values. Without FERRY_FULL=1 it does so for an eighth of the arguments; the hash of
// the results is that of all. With -update it records the largest errors of all.
func TestAccuracy(t *testing.T) {
	soft := newSoft(t, committedPTX(t))
	old := readRecord(t)
	var all []Record
	for i := range functions {
		for _, k := range kinds {
			f := &functions[i]
			if f.approximate || f.floatOnly && k.size == 64 {
				continue
			}
			r := Record{Function: f.name + k.suffix, Type: k.name, Method: f.method[k.size/64], Note: f.note, Hidden: f.hidden, At: []float64{}}
			judge(t, soft, f, k, &r)
			all = append(all, r)
			if want, ok := old[r.Function]; !*update && (!ok || r.ULP > want.ULP || r.Bits != want.Bits) {
				t.Errorf("%s: error %.3f ulp at %v, bits %s; recorded are %.3f and %s", r.Function, r.ULP, r.At, r.Bits, want.ULP, want.Bits)
			}
		}
	}
	if *update && !t.Failed() {
		writeRecord(t, all)
	}
}

// judge fills a record.
func judge(t *testing.T, d *device, f *function, k *kind, r *Record) {
	args := arguments(f, k, points(t))
	out, err := d.run(f, k, args)
	if err != nil {
		t.Fatal(err)
	}
	few := len(arguments(f, k, fewPoints)[0])
	r.Bits = sum(out[:min(few, len(out))])
	judged := judgedArguments(t, len(out))
	all := f.judgeAll(k, args, out, judged)
	wrong := 0
	for _, i := range judged {
		word := out[i]
		a := []float64{args[0][i], args[1][i], args[2][i]}[:f.args]
		got, e, want := k.from(word), all[i].ulp, all[i].want
		if e > 1000 && !(math.Abs(got-want) < math.Ldexp(1, 6-k.digits) && f.only != nil) {
			if wrong++; wrong <= 5 {
				t.Errorf("%s%v = %v, want %v", kernelName(f, k), a, got, want)
			}
		}
		if f.only != nil && !f.only(a) {
			continue
		}
		r.Arguments++
		if e > r.ULP {
			r.ULP, r.At = math.Ceil(e*1000)/1000, a
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d are wrong", kernelName(f, k), wrong, len(out))
	}
}

type verdict struct{ ulp, want float64 }

// judgedArguments returns the numbers of the arguments whose results are judged.
func judgedArguments(t *testing.T, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	if *update {
		return all
	}
	return sample.Of(t, all, n/8)
}

// judgeAll judges the results with these numbers, on all cores.
func (f *function) judgeAll(k *kind, args [][]float64, out []uint64, judged []int) []verdict {
	all := make([]verdict, len(out))
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for c := range cores {
		wg.Go(func() {
			for j := c; j < len(judged); j += cores {
				i := judged[j]
				a := []float64{args[0][i], args[1][i], args[2][i]}[:f.args]
				all[i].ulp, all[i].want = f.judge(k, a, k.from(out[i]))
			}
		})
	}
	wg.Wait()
	return all
}

// judge returns the error of a result in ulp, and the right result.
func (f *function) judge(k *kind, a []float64, got float64) (ulp, want float64) {
	if f.in(a) {
		exact := f.value(a, got)
		if exact != nil {
			return k.distance(exact, got), k.round(exact)
		}
	}
	if f.typed != nil {
		want = f.typed(k, a)
	} else {
		want = k.nearest(f.special(a))
	}
	if f.unchecked != nil && f.unchecked(want) {
		return 0, want
	}
	if math.IsNaN(want) && math.IsNaN(got) || want == got && math.Signbit(want) == math.Signbit(got) {
		return 0, want
	}
	return math.Inf(1), want
}

// value computes the exact value, or nil where it is out of range.
func (f *function) value(a []float64, got float64) *big.Float {
	var x []*big.Float
	for _, v := range a {
		x = append(x, b.Num(v))
	}
	if f.near {
		if math.IsNaN(got) || math.IsInf(got, 0) {
			got = 0.5
		}
		x = append(x, b.Num(got))
	}
	return f.exact(x)
}

// distance returns |exact - got| in units in the last place of exact.
func (k *kind) distance(exact *big.Float, got float64) float64 {
	if math.IsNaN(got) {
		return math.Inf(1)
	}
	top := -k.emin + 1 // exponent of the largest number
	g := b.Num(0)
	if math.IsInf(got, 0) {
		if g = b.Shift(b.Num(1), top+1); got < 0 {
			g.Neg(g)
		}
		if b.Abs(exact).Cmp(b.Abs(g)) >= 0 && exact.Sign() == g.Sign() {
			return 0
		}
	} else {
		g.SetFloat64(got)
	}
	e := k.emin
	if exact.Sign() != 0 {
		e = min(max(exact.MantExp(nil)-1, k.emin), top)
	}
	return b.Float(b.Shift(b.Abs(b.Sub(g, exact)), k.digits-1-e))
}

func readRecord(t testing.TB) map[string]Record {
	t.Helper()
	text, err := os.ReadFile(recordFile)
	if errors.Is(err, fs.ErrNotExist) && *update {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []Record
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]Record{}
	for _, r := range list {
		all[r.Function] = r
	}
	return all
}

// writeRecord writes a record with a line for each function.
func writeRecord(t testing.TB, all []Record) {
	t.Helper()
	text := "[\n"
	for i, r := range all {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if text += string(line); i < len(all)-1 {
			text += ","
		}
		text += "\n"
	}
	if err := os.WriteFile(recordFile, []byte(text+"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
