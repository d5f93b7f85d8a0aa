package main

import (
	"math/big"
	"os"
	"strings"
	"testing"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
)

// TestHeader computes some of the polynomials and all constants, and looks for their text
// in the header. All of them take ten seconds.
func TestHeader(t *testing.T) {
	header, err := os.ReadFile("../../../../" + output)
	if err != nil {
		t.Fatal(err)
	}
	has := func(name, text string) {
		if !strings.Contains(string(header), text) {
			t.Errorf("%s: the header lacks\n%s\nrun: go run ./internal/test/mathtest/coefficients", name, text)
		}
	}
	for i := range fits {
		f := &fits[i]
		has(f.name, f.doc)
		if f.name == "sin" {
			has(f.name, f.text(f.bits32, 32))
			has(f.name, f.text(f.bits64, 64))
		}
	}
	for i := range constants {
		has(constants[i].name, constants[i].text(32))
		has(constants[i].name, constants[i].text(64))
	}
	has("2/pi", piTable())
}

// TestRemez approximates a function whose best polynomial is known: that of x^2 by a line
// on [0, 1] is x - 1/8, with the error 1/8.
func TestRemez(t *testing.T) {
	f := fit{lo: 0, hi: 1, at: square}
	c, worst := f.grid().remez(2)
	for i, want := range []float64{-0.125, 1} {
		if got, _ := c[i].Float64(); got < want-1e-3 || got > want+1e-3 {
			t.Errorf("coefficient %d is %v, want %v", i, got, want)
		}
	}
	if worst < 0.1249 || worst > 0.1251 {
		t.Errorf("the error is %v, want 1/8", worst)
	}
}

func square(z *big.Float) (value, weight *big.Float) { return b.Mul(z, z), b.Num(1) }
