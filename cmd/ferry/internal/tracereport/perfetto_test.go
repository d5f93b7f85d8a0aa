package tracereport

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// TestPerfetto: the JSON follows the rules of the format by which Perfetto and Chrome load
// it. Every event has the fields of its phase; every process and track has one name;
// slices of a track do not overlap; each arrow has one start and one end, each within a
// slice of its track; and each operation is in a track of its stream and of its engine.
func TestPerfetto(t *testing.T) {
	var b bytes.Buffer
	if err := Perfetto(&b, sample()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []event
		OtherData   map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	golden(t, "perfetto.json", b.Bytes())
	if err := checkEvents(doc.TraceEvents); err != nil {
		t.Error(err)
	}
	perCategory := map[string]int{}
	for _, e := range doc.TraceEvents {
		perCategory[e.Cat+e.Ph]++
	}
	want := map[string]int{"callX": 5, "operationX": 6, "engineX": 6, "flows": 5, "flowf": 5}
	for k, n := range want {
		if perCategory[k] != n {
			t.Errorf("%d events %s, want %d", perCategory[k], k, n)
		}
	}
}

// checkEvents returns the errors of a list of events.
func checkEvents(all []event) error {
	var errs []error
	bad := func(e event, why string) {
		text, _ := json.Marshal(e)
		errs = append(errs, errors.New(why+": "+string(text)))
	}
	type key struct{ pid, tid int }
	tracks := map[key][]event{}
	processes, threads, tids := map[int]int{}, map[key]int{}, map[int]int{}
	arrows := map[uint64][2]int{}
	for _, e := range all {
		k := key{e.PID, e.TID}
		if e.PID <= 0 || e.Name == "" {
			bad(e, "no process or name")
		}
		switch e.Ph {
		case "M":
			switch e.Name {
			case "process_name":
				processes[e.PID]++
			case "thread_name":
				threads[k]++
				tids[e.TID]++
			}
			if len(e.Args) != 1 {
				bad(e, "metadata without its argument")
			}
		case "X":
			if e.TS == nil || e.Dur == nil || *e.Dur < 0 {
				bad(e, "a slice without times")
				continue
			}
			tracks[k] = append(tracks[k], e)
		case "s", "f":
			n := arrows[e.ID]
			n[map[string]int{"s": 0, "f": 1}[e.Ph]]++
			arrows[e.ID] = n
			if e.TS == nil || e.ID == 0 || e.Ph == "f" && e.BP != "e" {
				bad(e, "an arrow without time, id or binding")
			}
		default:
			bad(e, "an unknown phase")
		}
	}
	for k, list := range tracks {
		if processes[k.pid] != 1 || threads[k] != 1 || tids[k.tid] != 1 {
			bad(list[0], "a track without one name")
		}
		slices.SortFunc(list, func(a, b event) int { return int(*a.TS*1000) - int(*b.TS*1000) })
		for i := 1; i < len(list); i++ {
			if end := *list[i-1].TS + *list[i-1].Dur; *list[i].TS < end-1e-6 {
				bad(list[i], "it overlaps the slice before it in its track")
			}
		}
	}
	for _, e := range all {
		within := func(x event) bool { return *x.TS <= *e.TS+1e-6 && *e.TS <= *x.TS+*x.Dur+1e-6 }
		if (e.Ph == "s" || e.Ph == "f") && !slices.ContainsFunc(tracks[key{e.PID, e.TID}], within) {
			bad(e, "an arrow outside of a slice")
		}
	}
	for _, n := range arrows {
		if n != [2]int{1, 1} {
			errs = append(errs, errors.New("an arrow without one start and one end"))
		}
	}
	return errors.Join(errs...)
}
