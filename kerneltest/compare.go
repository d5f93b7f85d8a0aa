package kerneltest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// maxShown is how many differences of an argument are shown.
const maxShown = 5

// compare compares all buffers with the reference. The error has a part for each argument
// that is wrong.
func (t *trial) compare(want [][]byte) error {
	got := make([][]byte, len(t.args))
	var wrong []error
	for i, b := range t.buffers {
		if b == nil {
			continue
		}
		a := &t.args[i]
		data, err := b.results()
		if data == nil {
			return t.explain(fmt.Errorf("read argument %d, %s: %w", i, a.Text, err))
		}
		got[i] = data
		if err == nil {
			err = t.compareArg(a, data, t.before[i], want, i)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("argument %d, %s: %w", i, short(a.Text), err))
		}
	}
	if t.c.Want == nil && want == nil {
		t.expected[t.n] = got
	}
	if !t.other {
		t.results = got
	}
	return errors.Join(wrong...)
}

// compareArg compares the bytes of one buffer.
func (t *trial) compareArg(a *runner.Arg, got, before []byte, want [][]byte, i int) error {
	if a.Direction == runner.In {
		d := newDifferences(a, Tolerance{Bits: true}, got, before)
		return d.report("the kernel changed %d of %s of an input", "was")
	}
	if want == nil {
		return nil
	}
	tolerance, expected := t.c.Tolerance, "want"
	if t.other {
		tolerance, expected = Tolerance{Bits: true}, "the module has"
	}
	return newDifferences(a, tolerance, got, want[i]).report("%d of %s differ"+tolerance.text(a.Type), expected)
}

// text returns the part of a message that names the tolerance.
func (t Tolerance) text(typ runner.Type) string {
	var words []string
	switch {
	case t.Bits:
		return " in their bits"
	case t.ULP > 0 && typ.IsFloat():
		words = append(words, fmt.Sprintf("%d ulp", t.ULP))
	}
	if t.Abs > 0 && (typ.IsFloat() || typ.IsInteger()) {
		words = append(words, fmt.Sprintf("%v", t.Abs))
	}
	if words == nil {
		return ""
	}
	return " by more than " + strings.Join(words, " and ")
}

// differences are the elements of a buffer that are wrong.
type differences struct {
	a         *runner.Arg
	got, want []byte
	count     int
	first     []int // indices of the first
	last      int   // index of the last
	worst     int   // index of the largest distance in ulp
	worstULP  uint64
}

func newDifferences(a *runner.Arg, t Tolerance, got, want []byte) *differences {
	d := &differences{a: a, got: got, want: want}
	for i := range len(got) / a.Type.Size() {
		g, w := runner.Element(got, a.Type, i), runner.Element(want, a.Type, i)
		if t.accepts(a.Type, g, w) {
			continue
		}
		d.count++
		d.last = i
		if len(d.first) < maxShown {
			d.first = append(d.first, i)
		}
		if ulp, ok := ulpBetween(a.Type, g, w); ok && ulp > d.worstULP {
			d.worst, d.worstULP = i, ulp
		}
	}
	return d
}

// ulpBetween returns the distance of two finite floats.
func ulpBetween(typ runner.Type, x, y uint64) (ulp uint64, ok bool) {
	a, b := typ.Float(x), typ.Float(y)
	if !typ.IsFloat() || math.IsNaN(a-b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return 0, false
	}
	return ulpDistance(typ, x, y), true
}

// report returns an error with the differences, or nil. format has the number of wrong
// elements and of all. expected is the word before the expected value.
func (d *differences) report(format, expected string) error {
	if d.count == 0 {
		return nil
	}
	var b strings.Builder
	all := len(d.got) / d.a.Type.Size()
	fmt.Fprintf(&b, format, d.count, counted(all, "element", "elements"))
	width := len(fmt.Sprint(d.first[len(d.first)-1])) + 2
	for _, i := range d.first {
		fmt.Fprintf(&b, "\n  %-*s %s", width, fmt.Sprintf("[%d]", i), d.line(i, expected))
	}
	if more := d.count - len(d.first); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more, the last is [%d]", more, d.last)
		if d.worstULP > 0 {
			fmt.Fprintf(&b, "; the largest difference is %d ulp at [%d]", d.worstULP, d.worst)
		}
	}
	return errors.New(b.String())
}

// line describes the difference of one element.
func (d *differences) line(i int, expected string) string {
	typ := d.a.Type
	got, want := runner.Element(d.got, typ, i), runner.Element(d.want, typ, i)
	text := fmt.Sprintf("got %s, %s %s", valueText(typ, got), expected, valueText(typ, want))
	if d.a.Direction == runner.Out && got == fillPattern(typ) && typ.Size() > 1 {
		return fmt.Sprintf("not written, %s %s", expected, valueText(typ, want))
	}
	if ulp, ok := ulpBetween(typ, got, want); ok {
		return text + fmt.Sprintf(": %.3g, %d ulp", math.Abs(typ.Float(got)-typ.Float(want)), ulp)
	}
	if typ.IsInteger() {
		return text + fmt.Sprintf(": %d", integerDistance(typ, got, want))
	}
	return text
}

// valueText returns a value and, for floats, its bits.
func valueText(typ runner.Type, bits uint64) string {
	if typ.IsFloat() {
		return typ.Text(bits) + " (" + typ.BitText(bits) + ")"
	}
	return typ.Text(bits)
}
