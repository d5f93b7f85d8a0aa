package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestSuite runs all of it on two software GPUs, alone and beside programs that
// answer as the peers do.
func TestSuite(t *testing.T) {
	gpus, err := ferry.OpenAll("soft:h200*2")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gpus {
		defer g.Close()
	}
	if !testing.Short() {
		checkSuite(t, gpus, nil)
	}
	inC := answerInC(t)
	asked := filepath.Join(t.TempDir(), "asked")
	peers, err := NewPeers(answering(t, asked), []string{"link.cu", "calls.c", "pin.cu"})
	if err != nil {
		t.Fatal(err)
	}
	defer peers.Close()
	if missing := peers.Missing(); len(missing) > 0 {
		t.Skip(missing)
	}
	checkSuite(t, gpus, peers)
	checkAsked(t, asked)
	if !testing.Short() {
		checkCalled(t, inC)
	}
}

// answerInC is a library in place of that of internal/bench/peer/calls.c. It notes which
// functions were called.
func answerInC(t *testing.T) (called map[string]bool) {
	called = map[string]bool{}
	real := openLibrary
	t.Cleanup(func() { openLibrary = real })
	openLibrary = func(string) (library, error) {
		return func(name string, args ...uintptr) (uintptr, error) {
			called[name] = len(args) == 8
			return 7 * args[7], nil
		}, nil
	}
	return called
}

// checkCalled sees that calls.c has every function that was called, of as many
// parameters, and no other.
func checkCalled(t *testing.T, called map[string]bool) {
	t.Helper()
	source, err := os.ReadFile("peer/calls.c")
	if err != nil {
		t.Fatal(err)
	}
	functions := regexp.MustCompile(`(?m)^TIMED\((\w+),`).FindAllStringSubmatch(string(source), -1)
	for _, m := range functions {
		if !called[m[1]] {
			t.Errorf("%s was not called, or with other arguments", m[1])
		}
	}
	if len(functions) != len(called) || len(called) < 9 {
		t.Errorf("%d functions, called %v", len(functions), called)
	}
}

// suiteOnly are all parts; without those that take long where time is short, which
// have tests of their own.
func suiteOnly() []string {
	return slices.DeleteFunc(Parts(), func(name string) bool { return testing.Short() && (name == "calls" || name == "pin") })
}

// checkSuite is the names of all that is measured.
func checkSuite(t *testing.T, gpus []*ferry.GPU, peers *Peers) (names map[string]bool) {
	t.Helper()
	reached := map[string]bool{}
	report, err := Suite(gpus, &SuiteOptions{Only: suiteOnly(), Rounds: 1, Peers: peers, Progress: func(part string, _ *SpeedReport) { reached[part] = true }})
	if err != nil {
		t.Fatal(err)
	}
	if len(reached) != len(suiteOnly()) || report.Schema != SpeedSchema || report.Machine["emulated"] != "h200" {
		t.Errorf("parts %v, schema %q, machine %v", reached, report.Schema, report.Machine)
	}
	names = map[string]bool{}
	for _, r := range report.Results {
		key := r.What + " beside " + r.PeerName
		if names[key] || r.Ferry <= 0 || r.Samples != 1 && r.Samples != callRepeats || r.Unit != "ns" && r.Unit != "bytes_per_s" {
			t.Errorf("%+v: no result, or there twice", r)
		}
		missing := r.GoalRatio > 0 && r.PeerName != driverHere // which is no program
		if (r.Peer > 0) != (r.PeerName != "") || peers == nil && missing && (r.Met || r.PeerName != "") || peers != nil && missing && r.Ratio == 0 {
			t.Errorf("%+v: its peer", r)
		}
		names[key] = true
	}
	return names
}

// answering is a folder of programs that answer as the peers do, with made-up
// figures, and note what link_c was asked.
func answering(t *testing.T, asked string) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"link_c":  "while read l; do echo $l >>" + asked + "; case $l in copy*|prefetch*) echo 100.0 200.0;; *) echo '100.0 ';; esac; done",
		"pin_c":   "while read n; do echo 100 200; done",
		"calls_c": "", // a library
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkAsked sees that internal/bench/peer/link.cu knows all that it was asked, with as many
// arguments, and nothing else.
func checkAsked(t *testing.T, asked string) {
	t.Helper()
	text, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("peer/link.cu")
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]int{}
	for _, m := range regexp.MustCompile(`what == "(\w+)"(.*)`).FindAllStringSubmatch(string(source), -1) {
		arguments[m[1]] = strings.Count(m[2], "next<") + strings.Count(m[2], "said(")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if n, ok := arguments[words[0]]; !ok || n != len(words)-1 {
			t.Errorf("link.cu was asked %q; it takes %d arguments there, %v", line, n, ok)
		}
		seen[words[0]] = true
	}
	if len(seen) != len(arguments) {
		t.Errorf("of %v only %v was asked", arguments, seen)
	}
}

// TestSuiteChoice: parts by name and target, and what is neither.
func TestSuiteChoice(t *testing.T) {
	for _, c := range []struct{ only, want string }{
		{"link", "link"}, {"1", "link gpus"}, {"6,prefetch", "prefetch submitters calls"}, {"0", ""}, {"links", ""}, {"link,99", ""},
	} {
		some, err := chosen(strings.Split(c.only, ","))
		var names []string
		for _, p := range some {
			names = append(names, p.name)
		}
		if got := strings.Join(names, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v", c.only, got, err)
		}
	}
	if all, err := chosen(nil); err != nil || len(all) != len(parts) {
		t.Errorf("%v %v", all, err)
	}
	if peers, err := PeersOf([]string{"link", "kernels", "pin"}); err != nil || strings.Join(peers, " ") != "link.cu pin.cu pin.py" {
		t.Errorf("%v %v", peers, err)
	}
	if _, err := Suite(nil, &SuiteOptions{Only: []string{"no"}}); err == nil {
		t.Error("a part that is none is measured")
	}
}

// TestPeersMissing: what is not there is told of, each with its reason.
func TestPeersMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := os.WriteFile(filepath.Join(dir, "pin.cu"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := NewPeers(dir, []string{"link.cu", "pin.cu"})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(p.Missing(), "; ")
	if want := "peer link.cu: there is no " + filepath.Join(dir, "link.cu") + "; peer pin.cu: there is no nvcc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if p.command("pin.cu") != nil || len(p.peer("x", "link.cu")) > 0 {
		t.Error("a missing peer has a command")
	}
	if err := p.Close(); err != nil || exists(p.made) {
		t.Errorf("closed: %v", err)
	}
}
