package grid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// On hardware the cases are measured in several passes, with a part of the samples in each.
// The speed of a host varies from second to second, so the samples of a case must be taken
// at different times. Cases with a slow setup have all of their samples in one pass.
const (
	fullPasses  = 4
	quickPasses = 2
	slowSetup   = 32 * mib // cases of at least this size have a slow setup
)

// measurement is one run of [Measure].
type measurement struct {
	*rig
	o       *Options
	samples map[Case][]float64
	skipped map[Case]string // why a case is not measured
	failed  []Case          // those among them that the device should be able to run
	late    bool            // the limit of time was reached
}

// choose returns the cases to measure, and notes those that the device lacks.
func (m *measurement) choose() []Case {
	return slices.DeleteFunc(m.o.Set.Cases(), func(c Case) bool {
		if m.o.Only != nil && !m.o.Only(c) || m.o.Quick && !c.Quick() {
			return true
		}
		why := m.lacks(c)
		if why != "" {
			m.skipped[c] = why
		}
		return why != ""
	})
}

// lacks returns what the device lacks to run a case, or "".
func (r *rig) lacks(c Case) string {
	needs := func(a cu.DeviceAttribute, what string) string {
		if v, err := r.g.Attribute(a); err != nil || v == 0 {
			return "the device has no " + what
		}
		return ""
	}
	switch {
	case kindOf(c).make == nil:
		return "there is no such kind"
	case strings.Contains(c.Kind, "regist"):
		return needs(cu.DeviceAttributeHostRegisterSupported, "registration of host memory")
	case strings.HasPrefix(c.Kind, "managed"):
		return needs(cu.DeviceAttributeConcurrentManagedAccess, "managed memory that moves on demand")
	case c.Kind == "copy host to host":
		return needs(cu.DeviceAttributeUnifiedAddressing, "unified addresses")
	case c.Kind == "pool memory: allocate and free":
		return needs(cu.DeviceAttributeMemoryPoolsSupported, "memory pools")
	case c.Kind == manyBlocks:
		if most, err := r.g.Attribute(cu.DeviceAttributeMaxGridDimX); err == nil && most > 0 && c.Size > most {
			return fmt.Sprintf("the device runs at most %d blocks in a row", most)
		}
	}
	return ""
}

// passes takes the samples of all cases. With an error it keeps the samples so far. A case
// that fails does not end the run, unless the device fails.
func (m *measurement) passes(ctx context.Context, cases []Case) error {
	var first error
	began := time.Now()
	turns := m.turns(cases)
	for i, t := range turns {
		if m.skipped[t.Case] != "" {
			continue
		}
		if m.late = m.o.Limit > 0 && i > 0 && time.Since(began) >= m.o.Limit; m.late {
			break
		}
		if m.o.Progress != nil {
			m.o.Progress(i, len(turns), t.Case)
		}
		some, err := m.measure(ctx, t, m.o)
		m.samples[t.Case] = append(m.samples[t.Case], some...)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || m.alive() != nil {
			return fmt.Errorf("%v: %w", t.Case, err)
		}
		m.skipped[t.Case] = err.Error()
		if !lacking(err) {
			m.failed = append(m.failed, t.Case)
			first = firstOf(first, fmt.Errorf("%v: %w", t.Case, err))
		}
	}
	if len(m.failed) > 1 {
		return fmt.Errorf("%d cases failed; the first is %w", len(m.failed), first)
	}
	return first
}

// firstOf returns the first error that is not nil.
func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// lacking reports whether an error says that the device cannot do something, or has too
// little memory.
func lacking(err error) bool {
	return errors.Is(err, cu.ErrorNotSupported) || errors.Is(err, cu.ErrorOutOfMemory)
}

// alive returns an error if the device runs nothing any more, such as after it was lost.
func (m *measurement) alive() error {
	p, err := m.d.MemAlloc(m.ctx, 16)
	if err != nil && !errors.Is(err, cu.ErrorOutOfMemory) {
		return err
	}
	if err == nil {
		err = m.launchAndWait("arithmetic", 1, pack(p, float32(0.5), uint32(1)))
		return firstOf(err, m.d.MemFree(m.ctx, p))
	}
	return m.sync()
}

// turns returns the turns of the cases. If the time is limited, the cases of a quick
// measurement come before the others, and the first size of each kind before the second.
func (m *measurement) turns(cases []Case) (all []turn) {
	passes := fullPasses
	if m.o.Quick {
		passes = quickPasses
	}
	groups := [][]Case{cases}
	if m.o.Limit > 0 {
		isQuick := func(c Case) bool { return c.Quick() }
		isOther := func(c Case) bool { return !c.Quick() }
		groups = [][]Case{slices.DeleteFunc(slices.Clone(cases), isOther), slices.DeleteFunc(slices.Clone(cases), isQuick)}
	}
	for _, group := range groups {
		if m.o.Limit > 0 {
			bySizes(group)
		}
		for pass := range passes {
			for _, c := range group {
				switch once := m.emulated != nil || c.Size >= slowSetup; {
				case !once:
					all = append(all, turn{c, passes})
				case pass == 0:
					all = append(all, turn{c, 1})
				}
			}
		}
	}
	return all
}

// bySizes sorts cases by their numbers within their kinds.
func bySizes(cases []Case) {
	number, seen := map[Case]int{}, map[string]int{}
	for _, c := range cases {
		number[c] = seen[c.Kind]
		seen[c.Kind]++
	}
	slices.SortStableFunc(cases, func(a, b Case) int { return cmp.Compare(number[a], number[b]) })
}

// skips returns what was skipped: one entry for each kind and reason.
func (m *measurement) skips() (out []Skip) {
	for _, c := range m.o.Set.Cases() {
		why := m.skipped[c]
		if why == "" {
			continue
		}
		failed := slices.Contains(m.failed, c)
		if n := len(out) - 1; n >= 0 && out[n].Kind == c.Kind && out[n].Why == why {
			out[n].Sizes = append(out[n].Sizes, c.Size)
			continue
		}
		out = append(out, Skip{c.Kind, []int{c.Size}, why, failed})
	}
	return out
}
