package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestSuite runs the suite on two software GPUs, without peers and with programs that
// answer like the peers.
func TestSuite(t *testing.T) {
	gpus, err := ferry.OpenAll("soft:h200*2")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gpus {
		defer g.Close()
	}
	if sample.Full() {
		checkSuite(t, gpus, nil)
	}
	called := fakeLibrary(t)
	requests := filepath.Join(t.TempDir(), "requests")
	peers, err := NewPeers(fakePeers(t, requests), []string{"link.cu", "calls.c", "pin.cu", "serve.cu"})
	if err != nil {
		t.Fatal(err)
	}
	defer peers.Close()
	if missing := peers.Missing(); len(missing) > 0 {
		checkSuite(t, gpus, nil)
		t.Skip(missing)
	}
	checkSuite(t, gpus, peers)
	checkRequests(t, requests)
	if !testing.Short() {
		checkCalled(t, called)
	}
}

// fakeLibrary replaces the library of internal/measure/bench/peer/calls.c. It records the functions
// that are called with the right number of arguments.
func fakeLibrary(t *testing.T) (called map[string]bool) {
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

// checkCalled checks that the functions in calls.c are those that were called.
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

// suiteOnly returns the parts to test: all, or in short mode those that are fast. The
// others have their own tests.
func suiteOnly() []string {
	return slices.DeleteFunc(Parts(), func(name string) bool { return testing.Short() && (name == "calls" || name == "pin") })
}

// checkSuite runs the suite and checks the results.
func checkSuite(t *testing.T, gpus []*ferry.GPU, peers *Peers) {
	t.Helper()
	reached := map[string]bool{}
	report, err := Suite(gpus, &SuiteOptions{Only: suiteOnly(), Rounds: 1, Peers: peers, Progress: func(part string, _ *SpeedReport) { reached[part] = true }})
	if err != nil {
		t.Fatal(err)
	}
	if len(reached) != len(suiteOnly()) || report.Schema != SpeedSchema || report.Machine["emulated"] != "h200" {
		t.Errorf("parts %v, schema %q, machine %v", reached, report.Schema, report.Machine)
	}
	names := map[string]bool{}
	for _, r := range report.Results {
		key := r.What + " and " + r.PeerName
		if names[key] || r.Ferry <= 0 || r.Samples != 1 && r.Samples != callRepeats || r.Unit != "ns" && r.Unit != "bytes_per_s" {
			t.Errorf("%+v: not a valid result, or measured twice", r)
		}
		needsPeer := r.GoalRatio > 0 && r.PeerName != driverHere // driverHere is not a program
		if (r.Peer > 0) != (r.PeerName != "") || peers == nil && needsPeer && (r.Met || r.PeerName != "") || peers != nil && needsPeer && r.Ratio == 0 {
			t.Errorf("%+v: the figures of the peer are wrong", r)
		}
		names[key] = true
	}
}

// fakePeers writes programs that answer like the peers, with invented figures. It returns
// their folder. link_c writes its requests to a file.
func fakePeers(t *testing.T, requests string) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"link_c":  "while read l; do echo $l >>" + requests + "; case $l in copy*|prefetch*) echo 100.0 200.0;; *) echo '100.0 ';; esac; done",
		"pin_c":   "while read n; do echo 100 200; done",
		"calls_c": "", // a library
		"serve_c": `echo '{"program":"c","per_second":1000,"p50_us":900,"p99_us":1000,"p999_us":2000,"cpu_per_second":1}'`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkRequests checks that the requests in internal/measure/bench/peer/link.cu are those that were
// made, with the same numbers of arguments.
func checkRequests(t *testing.T, requests string) {
	t.Helper()
	text, err := os.ReadFile(requests)
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
			t.Errorf("request %q: link.cu knows it: %v, with %d arguments", line, ok, n)
		}
		seen[words[0]] = true
	}
	if len(seen) != len(arguments) {
		t.Errorf("link.cu knows the requests %v, only %v were made", arguments, seen)
	}
}

// TestSuiteChoice chooses parts by name and by target, and refuses other words.
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
	if all, err := chosen(nil); err != nil || len(all) != len(parts)-1 || slices.ContainsFunc(all, func(p part) bool { return p.name == "serve" }) {
		t.Errorf("without a choice: %v %v, want all parts but serve", all, err)
	}
	if peers, err := PeersOf([]string{"link", "kernels", "pin"}); err != nil || strings.Join(peers, " ") != "link.cu pin.cu pin.py" {
		t.Errorf("%v %v", peers, err)
	}
	if _, err := Suite(nil, &SuiteOptions{Only: []string{"no"}}); err == nil {
		t.Error("an unknown part was accepted")
	}
}

// TestPeersMissing checks that missing peers are reported with the reason.
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
	if err := p.Close(); err != nil || exists(p.built) {
		t.Errorf("closed: %v", err)
	}
}
