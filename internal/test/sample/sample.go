// Package sample draws the part of a test's cases that a plain `go test` runs. Two variables of
// the environment change that: FERRY_FULL=1 runs every case, and FERRY_SEED=N draws others.
// The seed is a constant of the repository without the variable, so that a run can be repeated.
// A test that fails prints its seed.
package sample

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// Variables of the environment.
const (
	FullVariable = "FERRY_FULL"
	SeedVariable = "FERRY_SEED"
)

// defaultSeed is the seed without FERRY_SEED.
const defaultSeed = 32

// Full reports whether every case runs.
func Full() bool { return os.Getenv(FullVariable) == "1" }

// Seed returns the seed of this process. A value of FERRY_SEED that is not a number fails the test.
func Seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv(SeedVariable)
	if text == "" {
		return defaultSeed
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: want a whole number from 0 to 2^64-1", SeedVariable, text)
	}
	return seed
}

// Rand returns numbers for one test: they depend on the seed and on the test's name. If the
// test fails it prints how to draw the same numbers again.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := Seed(t)
	t.Cleanup(func() {
		if t.Failed() && !Full() {
			t.Logf("the cases are a sample: %s=%d draws them again, %s=1 runs all", SeedVariable, seed, FullVariable)
		}
	})
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, name.Sum64()))
}

// Of returns n of the items, in their order, drawn by Rand; all of them if there are no more
// than n or if Full.
func Of[T any](t testing.TB, items []T, n int) []T {
	t.Helper()
	if Full() || n >= len(items) {
		return items
	}
	chosen := Rand(t).Perm(len(items))[:n]
	slices.Sort(chosen)
	some := make([]T, n)
	for i, at := range chosen {
		some[i] = items[at]
	}
	return some
}

// Count returns few, or many if Full.
func Count(few, many int) int {
	if Full() {
		return many
	}
	return few
}

// Race reports whether this is a race build that draws a sample. Such a run leaves out tests of
// one goroutine, and repeats less: the race detector takes ten times as long for a copied byte.
func Race() bool { return racebuild.On && !Full() }

// SkipRace skips a test with one goroutine, or of other processes, in a race build that draws a
// sample.
func SkipRace(t testing.TB) {
	t.Helper()
	if Race() {
		t.Skip("it has no two goroutines: " + FullVariable + "=1 runs it in a race build, too")
	}
}
