package forked

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/forktest"
)

// TestChild: a process is no child of itself. A child that a raw fork makes is one, and its
// children are. Nothing is a child before Started.
func TestChild(t *testing.T) {
	inChild := func(f func() string) string {
		t.Helper()
		text, err := forktest.Run(f)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	child := func() string { return fmt.Sprint(MayBeChild(), Child()) }
	if got := inChild(child); got != "false false" {
		t.Errorf("before Started: a child is %q", got)
	}
	Started()
	Started()
	if Child() {
		t.Error("a process is its own child")
	}
	want := fmt.Sprintf("copy: CUDA_ERROR_NOT_INITIALIZED: process N was made by fork from process %d, which started the driver: ", os.Getpid())
	got := inChild(func() string {
		err := New("copy")
		if !errors.Is(err, cu.ErrorNotInitialized) || !Child() {
			return "no child"
		}
		return strings.Replace(err.Error(), fmt.Sprint("process ", os.Getpid()), "process N", 1)
	})
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	defer mark.Store(mark.Load())
	mark.Store(&always) // as on systems that cannot wipe pages
	if Child() || !MayBeChild() {
		t.Error("without a page: a process is its own child, or looks not")
	}
	if got := inChild(child); got != "true true" {
		t.Errorf("without a page: a child is %q", got)
	}
}

func BenchmarkChild(b *testing.B) {
	Started()
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			Child()
		}
	})
	b.Run("getpid", func(b *testing.B) {
		defer mark.Store(mark.Load())
		mark.Store(&always)
		for b.Loop() {
			Child()
		}
	})
}
