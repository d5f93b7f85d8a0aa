package bench

import (
	"slices"
	"strings"
	"testing"
)

// TestPeer checks the protocol with peers, and the errors of peers that fail or refuse.
func TestPeer(t *testing.T) {
	r, err := shell("echo", "echo short long; while read n; do echo $n 7; done").start()
	if err != nil {
		t.Skip(err)
	}
	if got, err := r.methods(); err != nil || !slices.Equal(got, []string{"short", "long"}) {
		t.Errorf("methods %q, %v", got, err)
	}
	for line, want := range map[string][]float64{"5": {5, 7}, "6.5 1e3": {6.5, 1000, 7}} {
		if got, err := r.ask(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", line, got, err)
		}
	}
	for line, want := range map[string]string{"-1 the bytes differ,": `sample "-1 the bytes differ," of peer echo: the bytes differ, 7`, "x": "invalid syntax"} {
		if _, err := r.ask(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r, err = shell("dead", "exit 3").start()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.methods(); err == nil {
		t.Error("a peer that has exited returned methods")
	}
	if _, err := r.ask("1"); err == nil {
		t.Error("a peer that has exited returned a sample")
	}
	if r.stop() == nil {
		t.Error("stop did not return the exit status")
	}
}
