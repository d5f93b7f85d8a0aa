package ferry_test

import (
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// fakeDriver does nothing and returns no errors.
type fakeDriver = gputest.Fake

func newFake() *fakeDriver { return gputest.NewFake() }

// exclusiveDriver has managed memory that the host may not touch while the device works:
// it has no concurrent managed access. It counts waits for streams.
type exclusiveDriver struct {
	*fakeDriver
	waits   int
	streams cu.Stream
}

func newExclusiveDriver() *exclusiveDriver {
	d := &exclusiveDriver{fakeDriver: newFake()}
	d.Attributes[cu.DeviceAttributeManagedMemory] = 1
	return d
}

func (d *exclusiveDriver) MemAllocManaged(cu.Context, uintptr, cu.MemAttachFlags) (cu.DevicePtr, error) {
	p, err := d.MemHostAlloc(1, 64, 0)
	return deviceAddress(p), err
}
func (d *exclusiveDriver) StreamAttachMemAsync(cu.Context, cu.Stream, cu.DevicePtr, uintptr, cu.MemAttachFlags) error {
	return nil
}
func (d *exclusiveDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	d.streams++
	return d.streams, nil
}
func (d *exclusiveDriver) StreamQuery(cu.Context, cu.Stream) error {
	d.waits++
	return nil
}

// registerDriver counts the registrations of another driver, and can refuse them.
type registerDriver struct {
	cu.Driver
	below  uintptr             // registrations of this size or more are not counted; 0 counts all
	refuse func(now int) error // if not nil: the result for a registration while there are now others

	mu        sync.Mutex
	now, most int
	uncounted map[cu.HostPtr]bool
}

func (d *registerDriver) Unwrap() cu.Driver { return d.Driver }

func (d *registerDriver) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, flags cu.MemHostRegisterFlags) error {
	counted := d.below == 0 || n < d.below
	if counted && d.refuse != nil {
		if err := d.refuse(d.count()); err != nil {
			return err
		}
	}
	err := d.Driver.MemHostRegister(ctx, p, n, flags)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if counted {
		d.now++
		d.most = max(d.most, d.now)
	} else {
		d.uncounted[p] = true
	}
	return nil
}

func (d *registerDriver) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	err := d.Driver.MemHostUnregister(ctx, p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && !d.uncounted[p] {
		d.now--
	}
	return err
}

// count returns how many registrations there are.
func (d *registerDriver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// wantRegistrations checks how many registrations there are.
func wantRegistrations(t *testing.T, d *registerDriver, want int) {
	t.Helper()
	if got := d.count(); got != want {
		t.Errorf("there are %d registrations, want %d", got, want)
	}
}

// countRegistrations wraps a driver. The slots of the staging ring are larger than what
// these tests register, and not counted.
func countRegistrations(d cu.Driver) *registerDriver {
	return &registerDriver{Driver: d, below: 1 << 20, uncounted: map[cu.HostPtr]bool{}}
}
