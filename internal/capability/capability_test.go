package capability

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// device is a driver whose attributes a test sets: those in values, or an error for all others.
type device struct {
	cu.Driver
	values  map[cu.DeviceAttribute]int32
	refused error // for attributes without a value
	version int32
	asked   int
}

func (d *device) DeviceGetAttribute(a cu.DeviceAttribute, _ cu.Device) (int32, error) {
	d.asked++
	if v, ok := d.values[a]; ok {
		return v, nil
	}
	return 0, d.refused
}

func (d *device) DriverGetVersion() (int32, error) {
	if d.version == 0 {
		return 0, cu.ErrorUnknown
	}
	return d.version, nil
}

// TestProbe reads a device on which each number is another, so none is mistaken for another.
func TestProbe(t *testing.T) {
	d := &device{refused: cu.ErrorInvalidValue, version: 12080, values: map[cu.DeviceAttribute]int32{
		cu.DeviceAttributeUnifiedAddressing: 1, cu.DeviceAttributeMultiprocessorCount: 2, cu.DeviceAttributeMaxThreadsPerBlock: 3,
		cu.DeviceAttributeMaxBlockDimX: 4, cu.DeviceAttributeMaxBlockDimY: 5, cu.DeviceAttributeMaxBlockDimZ: 6,
		cu.DeviceAttributeMaxGridDimX: 7, cu.DeviceAttributeMaxGridDimY: 8, cu.DeviceAttributeMaxGridDimZ: 9,
		cu.DeviceAttributeMaxSharedMemoryPerBlock: 10, cu.DeviceAttributeMaxPitch: 11, cu.DeviceAttributeMaxSharedMemoryPerBlockOptin: 12,
	}}
	want := Set{Unified: true, Register: true, BatchCopies: true, Processors: 2, Threads: 3, Block: [3]int{4, 5, 6}, Grid: [3]int{7, 8, 9},
		Shared: 10, Pitch: 11, SharedMax: 12}
	if got, err := Probe(d, 0); err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	delete(d.values, cu.DeviceAttributeMaxSharedMemoryPerBlockOptin) // an old device has the default alone
	d.version = 12070
	want.BatchCopies, want.SharedMax = false, 10
	if got, err := Probe(d, 0); err != nil || got != want {
		t.Errorf("an older driver: got %+v, %v\nwant %+v", got, err, want)
	}
	d.version, d.values[cu.DeviceAttributeUnifiedAddressing] = 13000, 0
	if got, err := Probe(d, 0); err != nil || got.BatchCopies {
		t.Errorf("without unified addresses: got %+v, %v", got, err)
	}
}

// TestProbeEach sets one attribute at a time: it sets one field.
func TestProbeEach(t *testing.T) {
	for a, field := range map[cu.DeviceAttribute]func(*Set) *bool{
		cu.DeviceAttributeUnifiedAddressing:                 func(s *Set) *bool { return &s.Unified },
		cu.DeviceAttributeCanMapHostMemory:                  func(s *Set) *bool { return &s.Mapping },
		cu.DeviceAttributeReadOnlyHostRegisterSupported:     func(s *Set) *bool { return &s.RegisterReadOnly },
		cu.DeviceAttributeCanUseHostPointerForRegisteredMem: func(s *Set) *bool { return &s.RegisteredAddress },
		cu.DeviceAttributeManagedMemory:                     func(s *Set) *bool { return &s.Managed },
		cu.DeviceAttributeConcurrentManagedAccess:           func(s *Set) *bool { return &s.ConcurrentManaged },
		cu.DeviceAttributeMemoryPoolsSupported:              func(s *Set) *bool { return &s.Pools },
	} {
		d := &device{refused: cu.ErrorInvalidValue, values: map[cu.DeviceAttribute]int32{a: 1, cu.DeviceAttributeHostRegisterSupported: 0}}
		got, err := Probe(d, 0)
		if err != nil || !*field(&got) {
			t.Errorf("%v: %+v, %v", a, got, err)
		}
		if *field(&got) = false; got != (Set{}) {
			t.Errorf("%v: %+v beside its field", a, got)
		}
	}
}

// TestProbeFails: an error that does not say "unknown attribute" ends the questions, and is named.
func TestProbeFails(t *testing.T) {
	d := &device{refused: cu.ErrorDeinitialized}
	_, err := Probe(d, 0)
	if !errors.Is(err, cu.ErrorDeinitialized) || !strings.Contains(err.Error(), cu.DeviceAttributeUnifiedAddressing.String()) || d.asked != 1 {
		t.Errorf("%d questions: %v", d.asked, err)
	}
}

// TestHostPointers: kernels use registered memory at its own addresses if both attributes say so.
func TestHostPointers(t *testing.T) {
	for _, c := range []struct{ unified, registered, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		if got := (&Set{Unified: c.unified, RegisteredAddress: c.registered}).HostPointers(); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
	d, err := softgpu.Open(softgpu.Options{})
	if err == nil {
		err = d.Init(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Probe(d, 0); err != nil || !got.HostPointers() || got.Processors != 132 || !got.Pools || !got.BatchCopies {
		t.Errorf("the software H200: %+v, %v", got, err)
	}
}
