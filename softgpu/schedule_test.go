package softgpu

import (
	"strings"
	"testing"
)

func TestParseSchedule(t *testing.T) {
	for _, text := range []string{"eager", "lazy", "random", "random:1", "random:72057594037927935"} {
		s, err := ParseSchedule(text)
		if err != nil || s.String() != text {
			t.Errorf("%q is %v, %v", text, s, err)
		}
	}
	if s, err := ParseSchedule("random:0"); s != Random || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
	for _, text := range []string{"", "Eager", "random:", "random:x", "random:-1", "random:72057594037927936", "lazy:3", " lazy"} {
		if s, err := ParseSchedule(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

func TestScheduleFromTheEnvironment(t *testing.T) {
	open := func(env string, opts Options) *Driver {
		t.Helper()
		t.Setenv(ScheduleVariable, env)
		d, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for env, want := range map[string]Schedule{"": Eager, "lazy": Lazy, "random:9": Random} {
		if got := open(env, Options{}).schedule; got != want {
			t.Errorf("%q gives %v, want %v", env, got, want)
		}
	}
	if got := open("lazy", Options{Schedule: Random}).schedule; got != Random {
		t.Errorf("the environment changed a schedule that was chosen to %v", got)
	}
	nine, err := ParseSchedule("random:9")
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := open("random:9", Options{Seed: 4}), open("", Options{Schedule: Random, Seed: 9}), open("", Options{Schedule: nine})
	if x := a.rng.Uint64(); x != b.rng.Uint64() || x != c.rng.Uint64() {
		t.Error("one seed gives several runs")
	}
	t.Setenv(ScheduleVariable, "sometimes")
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), ScheduleVariable) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(Options{Schedule: 7}); err == nil {
		t.Error("a schedule that is none was taken")
	}
}
