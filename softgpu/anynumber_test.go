package softgpu

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

// numberIn is one number of a profile: where it is, and how a copy of a profile gets another one.
type numberIn struct {
	path string
	set  func(p *profile.Profile, v float64)
}

// numbersOf returns all numbers of a profile but those of its tuning, which the device does not
// use. It finds them by reflection, so that a new field is tested too.
func numbersOf(p *profile.Profile) (all []numberIn) {
	var walk func(t reflect.Type, path string, at func(*profile.Profile) reflect.Value)
	walk = func(t reflect.Type, path string, at func(*profile.Profile) reflect.Value) {
		switch t {
		case reflect.TypeFor[profile.Number]():
			all = append(all, numberIn{path, func(p *profile.Profile, v float64) {
				*at(p).Addr().Interface().(*profile.Number) = profile.Number{Value: v, Source: "h200"}
			}})
			return
		case reflect.TypeFor[profile.Curve]():
			curve := func(p *profile.Profile) *profile.Curve { return at(p).Addr().Interface().(*profile.Curve) }
			for i := range curve(p).Points {
				own := func(p *profile.Profile) *profile.Point {
					c := curve(p)
					c.Points = slices.Clone(c.Points)
					return &c.Points[i]
				}
				all = append(all, numberIn{fmt.Sprintf("%s[%d].bytes", path, i), func(p *profile.Profile, v float64) { own(p).Bytes = v }},
					numberIn{fmt.Sprintf("%s[%d].ns", path, i), func(p *profile.Profile, v float64) { own(p).Ns = v }})
			}
			return
		case reflect.TypeFor[profile.Tuning]():
			return
		}
		for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
			walk(t.Field(i).Type, path+"."+t.Field(i).Name, func(p *profile.Profile) reflect.Value { return at(p).Field(i) })
		}
	}
	walk(reflect.TypeFor[profile.Profile](), "", func(p *profile.Profile) reflect.Value { return reflect.ValueOf(p).Elem() })
	for _, name := range slices.Sorted(maps.Keys(p.Attributes)) {
		all = append(all, numberIn{"attributes." + name, func(p *profile.Profile, v float64) {
			p.Attributes = maps.Clone(p.Attributes)
			p.Attributes[name] = profile.Number{Value: v, Source: "h200"}
		}})
	}
	return all
}

// oddNumbers are values at which uses of numbers go wrong.
var oddNumbers = []float64{
	0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 1e-320, 1e-300, 1e-12, 1e-6, 1e-3, -1, 1, 2, 3, 512, 4096,
	1e6, 1e9, 1e10, 1e12, 1e15, 1e18, math.MaxInt32, 1 << 40, 1 << 46, 1 << 53, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
}

// changed returns a copy of p with another number.
func (n numberIn) changed(p *profile.Profile, v float64) *profile.Profile {
	q := *p
	n.set(&q, v)
	return &q
}

// greatest returns the greatest value that a number may have, to which v is near.
func (n numberIn) greatest(p *profile.Profile, v float64) float64 {
	for step := v; step > v/1e6; step /= 2 {
		if n.changed(p, v+step).Check() == nil {
			v += step
		}
	}
	return v
}

// TestAnyNumber gives each number of the H200's profile odd values and the greatest that it may
// have. Open refuses the profile, or a program that uses every kind of operation ends after a
// bounded number of steps of the virtual clock, and its clock rises. It tries each value at a
// sample of the numbers.
func TestAnyNumber(t *testing.T) {
	sample.SkipRace(t)
	base := named(t, "h200")
	type change struct {
		n    numberIn
		kind string
		v    float64
	}
	var changes []change
	for _, n := range numbersOf(base) {
		most := -1.0
		for _, v := range oddNumbers {
			changes = append(changes, change{n, fmt.Sprint(v), v})
			if v > most && n.changed(base, v).Check() == nil {
				most = v
			}
		}
		if most > 0 {
			changes = append(changes, change{n, "greatest", n.greatest(base, most)})
		}
	}
	if len(changes) < 5000 {
		t.Fatalf("%d changes, want those of some 300 numbers", len(changes))
	}
	refused, ran := 0, 0
	for _, c := range sample.OfEach(t, changes, func(c change) string { return c.kind }, 48) {
		p := c.n.changed(base, c.v)
		if p.Check() != nil {
			if _, err := Open(Options{Profile: p}); err == nil {
				t.Errorf("%s = %v: Check refuses the profile, and Open does not", c.n.path, c.v)
			}
			refused++
			continue
		}
		ran++
		anyProgram(t, fmt.Sprintf("%s = %v", c.n.path, c.v), p, Eager)
	}
	t.Logf("%d of %d changes refused, %d ran", refused, len(changes), ran)
	if refused == 0 || ran == 0 {
		t.Error("the test changes nothing")
	}
	for _, n := range numbersOf(base) { // nothing that is no number of a machine
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, -1e-300, 1e-320, math.MaxFloat64} {
			if n.changed(base, v).Check() == nil {
				t.Errorf("%s = %v is accepted", n.path, v)
			}
		}
	}
}

// mostSteps is how many steps of the virtual clock anyProgram may take. With the profile of the
// H200 it takes some 500.
const mostSteps = 20000

// anyProgram uses every kind of operation on a device with a profile. Errors of the driver are
// fine, because the device may have no memory, or a capability less. It returns the steps of the
// clock.
func anyProgram(t *testing.T, name string, p *profile.Profile, s Schedule) uint64 {
	d, err := Open(Options{Profile: p, Devices: 2, Schedule: s, Seed: 3})
	if errors.Is(err, cu.ErrorInvalidValue) {
		return 0
	}
	if err != nil || d.Init(0) != nil {
		t.Errorf("%s: %v", name, err)
		return 0
	}
	d.sim.look, d.sim.most = 16, mostSteps
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		return 0
	}
	defer d.DevicePrimaryCtxReset(0)
	a := &anyRun{rig: &rig{d, t, ctx}, host: make([]byte, 1<<16)}
	before := d.Now()
	a.memory()
	for range 2 {
		a.copies()
		a.kernels()
		a.managed()
		a.order()
	}
	a.polls(name)
	_ = d.CtxSynchronize(ctx)
	if after := d.Now(); after < before {
		t.Errorf("%s: the clock went from %v to %v", name, before, after)
	}
	if d.sim.stopped {
		t.Errorf("%s: the clock did not come to its end within %d steps: %v", name, mostSteps, d.loss.fault)
	}
	return d.sim.steps
}

// anyRun is the memory of anyProgram. What the device lacks is 0.
type anyRun struct {
	*rig
	host           []byte
	dev, peer, own cu.DevicePtr
	pinned         cu.HostPtr
	stream         cu.Stream
	event          cu.Event
	other          cu.Context
}

func (a *anyRun) memory() {
	n := uintptr(len(a.host))
	a.dev, _ = a.MemAlloc(a.ctx, n)
	a.own, _ = a.MemAllocManaged(a.ctx, n, cu.MemAttachGlobal)
	a.pinned, _ = a.MemHostAlloc(a.ctx, n, cu.MemHostAllocDeviceMap)
	a.stream, _ = a.StreamCreateWithPriority(a.ctx, cu.StreamNonBlocking, 0)
	a.event, _ = a.EventCreate(a.ctx, 0)
	if a.other, _ = a.DevicePrimaryCtxRetain(1); a.other != 0 {
		a.peer, _ = a.MemAlloc(a.other, n)
	}
	if m, err := a.MemAllocAsync(a.ctx, n, a.stream); err == nil {
		_ = a.MemFreeAsync(a.ctx, m, a.stream)
	}
}

func (a *anyRun) copies() {
	n := uintptr(len(a.host))
	_ = a.MemcpyHtoD(a.ctx, a.dev, cu.HostPtr(&a.host[0]), n)
	_ = a.MemcpyHtoDAsync(a.ctx, a.dev, a.pinned, n, a.stream)
	_ = a.MemcpyDtoHAsync(a.ctx, a.pinned, a.dev, n, a.stream)
	_ = a.MemcpyDtoH(a.ctx, cu.HostPtr(&a.host[0]), a.dev, n)
	_ = a.MemsetD8(a.ctx, a.dev, 1, n)
	_ = a.MemcpyPeerAsync(a.ctx, a.dev, a.ctx, a.peer, a.other, n, a.stream)
}

// kernels launches kernels on device, mapped, peer and managed memory, with atomics on the first
// two.
func (a *anyRun) kernels() {
	mapped, _ := a.MemHostGetDevicePointer(a.ctx, a.pinned, 0)
	m, err := a.ModuleLoadData(a.ctx, []byte(testPTX))
	if err != nil {
		return
	}
	iota, _ := a.ModuleGetFunction(a.ctx, m, "iota")
	for _, p := range []cu.DevicePtr{a.dev, mapped, a.own} {
		if p != 0 {
			_ = a.run(iota, 32, 128, a.stream, p)
			_ = a.run(iota, 1, 32, 0, p)
		}
	}
	if m, err = a.ModuleLoadData(a.ctx, []byte(mappedSource())); err != nil || raceBuild {
		return
	}
	hammer, _ := a.ModuleGetFunction(a.ctx, m, "hammer")
	for _, p := range []cu.DevicePtr{a.dev, mapped} {
		if p != 0 {
			_ = a.run(hammer, 2, 64, a.stream, p, uint32(3))
		}
	}
}

func (a *anyRun) managed() {
	if a.own == 0 {
		return
	}
	n := uintptr(len(a.host))
	_ = a.MemPrefetchAsync(a.ctx, a.own, n, 0, a.stream)
	_ = a.MemsetD8(a.ctx, a.own, 1, n)
	_ = a.StreamSynchronize(a.ctx, a.stream)
	_ = a.HostAccess(hostPointer(uint64(a.own)), n, true)
	_ = a.MemPrefetchAsync(a.ctx, a.own, n, cu.CPUDevice, a.stream)
}

// order uses events, host functions, written values and a graph.
func (a *anyRun) order() {
	_ = a.EventRecord(a.ctx, a.event, a.stream)
	_ = a.StreamWaitEvent(a.ctx, 0, a.event, 0)
	_ = a.LaunchHostFunc(a.ctx, a.stream, func() {})
	_ = a.StreamWriteValue32(a.ctx, a.stream, a.dev, 1, 0)
	if a.StreamBeginCapture(a.ctx, a.stream, cu.StreamCaptureModeThreadLocal) != nil {
		return
	}
	_ = a.MemcpyHtoDAsync(a.ctx, a.dev, a.pinned, 4096, a.stream)
	_ = a.MemcpyDtoHAsync(a.ctx, a.pinned, a.dev, 4096, a.stream)
	g, err := a.StreamEndCapture(a.ctx, a.stream)
	if err != nil {
		return
	}
	if x, err := a.GraphInstantiate(a.ctx, g, 0); err == nil {
		_ = a.GraphLaunch(a.ctx, x, a.stream)
		_ = a.GraphExecDestroy(x)
	}
	_ = a.GraphDestroy(g)
}

// polls asks for the end of a kernel and of a copy until it has come, as a program does.
func (a *anyRun) polls(name string) {
	_ = a.MemcpyHtoDAsync(a.ctx, a.dev, a.pinned, uintptr(len(a.host)), a.stream)
	for range 2 * manyPolls {
		if err := a.StreamQuery(a.ctx, a.stream); err != cu.ErrorNotReady {
			return
		}
	}
	a.t.Errorf("%s: after %d queries the stream is still not ready", name, 2*manyPolls)
}
