package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// openRegister opens a GPU that can register memory, or skips the test.
func openRegister(t *testing.T) *ferry.GPU {
	t.Helper()
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeHostRegisterSupported); err == nil && n == 0 {
		t.Skip("the device cannot register memory")
	}
	return g
}

// openCounted opens a GPU and counts its registrations.
func openCounted(t *testing.T) (*ferry.GPU, *registerDriver) {
	t.Helper()
	d := countRegistrations(openRegister(t).Driver())
	return openDriver(t, d), d
}

// wantRoundTrip checks that the bytes of a buffer arrive on the GPU, and that a part of them
// comes back. what begins the message.
func wantRoundTrip(t *testing.T, s *ferry.Stream, what string, h *ferry.Host[byte], device *ferry.Device[byte]) {
	t.Helper()
	n := h.Len()
	fillRandom(h.Slice())
	want, got := bytes.Clone(h.Slice()), make([]byte, n)
	check(t, ferry.Copy(s, device.Range(0, n), h))
	check(t, ferry.Copy(s, ferry.Pageable(got), device.Range(0, n)))
	if !bytes.Equal(got, want) {
		t.Errorf("%s: the bytes on the GPU differ", what)
	}
	i, j := n/5, n-n/7
	clear(h.Slice())
	check(t, ferry.Copy(s, h.Range(i, j), device.Range(i, j)))
	clear(want[:i])
	clear(want[j:])
	if !bytes.Equal(h.Slice(), want) {
		t.Errorf("%s: the bytes copied back differ", what)
	}
}

// TestRegisterOverlap registers ranges of one slice that overlap in every way. Each works
// until its own Close, in whatever order they are closed, and no registration is left.
func TestRegisterOverlap(t *testing.T) {
	g, d := openCounted(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 100_000)
	device := must(ferry.Alloc[byte](g, len(memory)))(t)
	ranges := [][2]int{{10_000, 50_001}, {10_000, 50_001}, {20_000, 30_000}, {40_000, 70_003}, {0, 10_000}, {0, 100_000}, {60_000, 60_001}, {70_003, 70_004}}
	for round := range 6 {
		order := rand.Perm(len(ranges))
		var all []*ferry.Host[byte]
		for _, i := range order {
			h := must(ferry.Register(g, memory[ranges[i][0]:ranges[i][1]], nil))(t)
			all = append(all, h)
			wantRoundTrip(t, s, fmt.Sprintf("round %d, %v", round, ranges[i]), h, device)
		}
		for len(all) > 0 {
			i := rand.IntN(len(all))
			check(t, all[i].Close())
			all = append(all[:i], all[i+1:]...)
			for _, h := range all {
				wantRoundTrip(t, s, "after a Close", h, device)
			}
		}
		wantRegistrations(t, d, 0)
	}
	if d.most < 2 {
		t.Error("there were never two registrations at once: the test is void")
	}
	closeAll(t, device, s)
}

// TestRegisterInFlight: Slice of a buffer waits for what other buffers have in flight on
// the same bytes. Close of one does not affect the others.
func TestRegisterInFlight(t *testing.T) {
	g, d := openCounted(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 3*4096+5)
	low, high := must(ferry.Register(g, memory[:9000], nil))(t), must(ferry.Register(g, memory[4000:], nil))(t)
	far := must(ferry.Register(g, memory[9000:9001], nil))(t)
	device := must(ferry.Alloc[byte](g, len(memory)))(t)
	check(t, ferry.Fill(s, device, 0x5a))
	open := gate(t, s)
	check(t, ferry.Copy(s, low, device.Range(0, 9000)))
	if far.Slice() == nil || high.Range(5000, 5001).Slice() == nil { // not in low: they must return although the gate is shut
		t.Error("Slice is nil")
	}
	waits(t, "Slice of the other buffer", open, func() {
		if got := high.Slice()[0]; got != 0x5a {
			t.Errorf("Slice returns an old byte: %#x", got)
		}
	})
	open = gate(t, s)
	check(t, ferry.Copy(s, high, device.Range(0, high.Len())))
	waits(t, "Close of a buffer in flight", open, func() { check(t, high.Close()) })
	wantRoundTrip(t, s, "after the other's Close", low, device)
	wantError(t, ferry.Copy(s, low.Range(100, 200), low.Range(150, 250)), cu.ErrorInvalidValue, "overlap")
	again := must(ferry.Register(g, memory[100:300], nil))(t)
	wantError(t, ferry.Copy(s, low.Range(150, 250), again.Range(0, 100)), cu.ErrorInvalidValue, "overlap")
	check(t, ferry.Copy(s, low.Range(100, 200), again.Range(0, 100))) // onto itself: nothing to do
	check(t, again.Range(0, 100).Wait(context.Background()))
	closeAll(t, low, far, again, device, s)
	wantRegistrations(t, d, 0)
}

// TestRegisterFill fills across boundaries of registrations that lie within an element.
func TestRegisterFill(t *testing.T) {
	g := openRegister(t)
	if n, err := g.Attribute(cu.DeviceAttributeCanUseHostPointerForRegisteredMem); err != nil || n == 0 {
		t.Skip("each registration has an address of its own")
	}
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	for _, step := range []int{1, 16} {
		values := make([]float32, 10_000)
		memory := asByteArrays(values)
		var parts []*ferry.Host[[1]byte]
		for _, at := range [][2]int{{0, 4}, {101, 103}, {300, 625}, {1251, 1252}, {1800, 1803}} {
			parts = append(parts, must(ferry.Register(g, memory[step*at[0]:step*at[1]], nil))(t))
		}
		whole := must(ferry.Register(g, values, &ferry.RegisterOptions{Mapped: true}))(t)
		check(t, ferry.Fill(s, whole.Range(1, 9_999), 3.25))
		for i, got := range whole.Slice() {
			want := float32(3.25)
			if i == 0 || i == 9_999 {
				want = 0
			}
			if got != want {
				t.Fatalf("element %d is %v, want %v", i, got, want)
			}
		}
		if step == 16 { // kernels load 16 bytes at once; the software GPU wants them in one registration
			check(t, s.Launch(k, ferry.Cover(10_000, 256), whole, uint64(10_000)))
			check(t, s.Wait(context.Background()))
			if got := whole.Slice()[5_000]; got != 4.25 {
				t.Errorf("got %v, want 4.25", got)
			}
		}
		for _, p := range parts {
			closeAll(t, p)
		}
		closeAll(t, whole)
	}
	closeAll(t, code, s)
}

// TestRegisterRefused: the error says why memory cannot be registered, and all registrations
// are as before.
func TestRegisterRefused(t *testing.T) {
	g, d := openCounted(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 50_000)
	device := must(ferry.Alloc[byte](g, len(memory)))(t)
	a, b := must(ferry.Register(g, memory[1000:2000], nil))(t), must(ferry.Register(g, memory[30_000:31_000], nil))(t)
	d.refuse = func(now int) error { // the second of the three registrations that are missing
		if now == 3 {
			return cu.ErrorOutOfMemory
		}
		return nil
	}
	_, err := ferry.Register(g, memory, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "register 48.8 KiB of registered memory")
	d.refuse = nil
	wantRegistrations(t, d, 2)
	wantRoundTrip(t, s, "after a failure", a, device)
	all := must(ferry.Register(g, memory, nil))(t)
	closeAll(t, a, b)
	wantRoundTrip(t, s, "the whole", all, device)
	closeAll(t, all)

	locked := must(ferry.AllocHost[byte](g, 8192, nil))(t)
	_, err = ferry.Register(g, locked.Slice()[100:200], nil)
	wantError(t, err, cu.ErrorInvalidValue, "page-locked buffer", "needs no registration", "Range")
	closeAll(t, locked)

	check(t, d.Driver.MemHostRegister(g.CUContext(), cu.HostPtr(&memory[5000]), 100, 0))
	_, err = ferry.Register(g, memory, nil)
	wantError(t, err, cu.ErrorHostMemoryAlreadyRegistered, "use WrapHost")
	check(t, d.Driver.MemHostUnregister(g.CUContext(), cu.HostPtr(&memory[5000])))

	if n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported); err == nil && n != 0 {
		r := must(ferry.Register(g, memory[:4096], &ferry.RegisterOptions{ReadOnly: true}))(t)
		_, err := ferry.Register(g, memory[100:9000], nil)
		wantError(t, err, cu.ErrorHostMemoryAlreadyRegistered, "ReadOnly", "registered buffer")
		both := must(ferry.Register(g, memory[100:9000], &ferry.RegisterOptions{ReadOnly: true}))(t)
		check(t, ferry.Copy(s, device.Range(0, 8900), both))
		closeAll(t, r, both)
	}
	closeAll(t, device, s)
	wantRegistrations(t, d, 0)
}

// TestRegisterSeparateAddresses: without unified addressing each registration has an address
// of its own in kernels.
func TestRegisterSeparateAddresses(t *testing.T) {
	f := newFake()
	f.Attributes[cu.DeviceAttributeUnifiedAddressing] = 0
	g := openDriver(t, &separateAddressDriver{f})
	memory := make([]byte, 10_000)
	mapped := &ferry.RegisterOptions{Mapped: true}
	a := must(ferry.Register(g, memory[1000:2000], nil))(t)
	_, err := ferry.Register(g, memory[1500:1600], mapped)
	wantError(t, err, cu.ErrorHostMemoryAlreadyRegistered, "without Mapped", "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING is 0")
	closeAll(t, a)
	a = must(ferry.Register(g, memory[1000:2000], mapped))(t)
	b := must(ferry.Register(g, memory[1500:1600], mapped))(t)
	if b.Pointer() != a.Pointer()+500 || a.Pointer() == 0 {
		t.Errorf("addresses %#x and %#x", a.Pointer(), b.Pointer())
	}
	_, err = ferry.Register(g, memory, mapped)
	wantError(t, err, cu.ErrorHostMemoryAlreadyRegistered, "its own address", "CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0", "without Mapped")
	c := must(ferry.Register(g, memory, nil))(t)
	if c.Pointer() != 0 {
		t.Errorf("the address is %#x, want none", c.Pointer())
	}
	closeAll(t, a, b, c)
}

// separateAddressDriver gives registrations addresses in kernels that are not the host's.
type separateAddressDriver struct{ *fakeDriver }

func (separateAddressDriver) MemHostRegister(cu.Context, cu.HostPtr, uintptr, cu.MemHostRegisterFlags) error {
	return nil
}

func (separateAddressDriver) MemHostUnregister(cu.Context, cu.HostPtr) error { return nil }

func (separateAddressDriver) MemHostGetDevicePointer(_ cu.Context, p cu.HostPtr, _ uint32) (cu.DevicePtr, error) {
	return deviceAddress(p) + 1<<56, nil
}

// TestRegisterConcurrent registers, uses and closes ranges of one slice on several
// goroutines. The ranges overlap; the bytes used do not.
func TestRegisterConcurrent(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	t.Run("device=test", func(t *testing.T) {
		g, d := openCounted(t)
		testRegisterConcurrent(t, g)
		wantRegistrations(t, d, 0)
	})
	t.Run("device=soft:h200/schedule=random", func(t *testing.T) {
		testRegisterConcurrent(t, openSoft(t, "h200", softgpu.Random))
	})
}

func testRegisterConcurrent(t *testing.T, g *ferry.GPU) {
	const workers, part = 6, 3001
	memory := make([]byte, workers*part)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			if err := registerRepeatedly(g, memory, w*part, (w+1)*part); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// registerRepeatedly uses memory[i:j] through registrations that begin before it and end
// after it.
func registerRepeatedly(g *ferry.GPU, memory []byte, i, j int) error {
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		return err
	}
	device, err := ferry.Alloc[byte](g, j-i)
	for round := 0; err == nil && round < 40; round++ {
		from, to := rand.IntN(i+1), j+rand.IntN(len(memory)-j+1)
		var h *ferry.Host[byte]
		if h, err = ferry.Register(g, memory[from:to], nil); err != nil {
			break
		}
		mine := h.Range(i-from, j-from)
		fill := byte(round + i)
		err = errors.Join(ferry.Fill(s, device, fill), ferry.Copy(s, mine, device), mine.Wait(context.Background()))
		if err == nil && !bytes.Equal(memory[i:j], bytes.Repeat([]byte{fill}, j-i)) {
			err = fmt.Errorf("round %d, memory from byte %d: the bytes differ", round, i)
		}
		err = errors.Join(err, h.Close())
	}
	return errors.Join(err, device.Close(), s.Close())
}

// TestRegisterSeveralGPUs: GPUs of one driver share registrations, in whatever order they
// are closed.
func TestRegisterSeveralGPUs(t *testing.T) {
	d := countRegistrations(softDriver(t, "h200", 2, softgpu.Lazy))
	one, two := must(ferry.OpenDriver(d, 0))(t), must(ferry.OpenDriver(d, 1))(t)
	memory := make([]byte, 20_000)
	a, b := must(ferry.Register(one, memory[:12_000], nil))(t), must(ferry.Register(two, memory[8000:], nil))(t)
	closeAll(t, a, one)
	device, s := must(ferry.Alloc[byte](two, 20_000))(t), must(ferry.NewStream(two, nil))(t)
	wantRoundTrip(t, s, "after the GPU that registered was closed", b, device)
	wantRegistrations(t, d, 2)
	if d.most != 2 {
		t.Errorf("there were %d registrations at most, want 2", d.most)
	}
	closeAll(t, b, device, s, two)
	wantRegistrations(t, d, 0)
}

// TestRegisterInHostFunc: a host function cannot register memory that is not registered
// yet. What it closes is unregistered afterwards.
func TestRegisterInHostFunc(t *testing.T) {
	g, d := openCounted(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 10_000)
	a := must(ferry.Register(g, memory[:5000], nil))(t)
	b := must(ferry.Register(g, memory[:9000], nil))(t)
	var within *ferry.Host[byte]
	var withinErr, freshErr, closeErr error
	check(t, s.HostFunc(func() {
		within, withinErr = ferry.Register(g, memory[1:8999], nil)
		_, freshErr = ferry.Register(g, memory, nil)
		closeErr = errors.Join(a.Close(), b.Close())
	}))
	check(t, s.Wait(context.Background()))
	check(t, errors.Join(withinErr, closeErr))
	wantError(t, freshErr, cu.ErrorNotPermitted, "register")
	device := must(ferry.Alloc[byte](g, 10_000))(t)
	wantRoundTrip(t, s, "registered in a host function", within, device)
	closeAll(t, within, device, s)
	wantRegistrations(t, d, 0)
}

// TestRegisterLarge: a large slice is registered in several parts, too.
func TestRegisterLarge(t *testing.T) {
	g, d := openPinEngine(t)
	memory := make([]byte, registrationLimit+1<<20)
	h := must(ferry.Register(g, memory, nil))(t)
	if got := d.count(); got < 2 {
		t.Errorf("there are %d registrations, want 2", got)
	}
	start := int(uint64(h.Pointer()) % registrationLimit)
	copyAcrossBoundary(t, g, h, registrationLimit-start)
	closeAll(t, h)
	wantRegistrations(t, d, 0)
}

// TestRegisterReadOnly: operations that write memory registered with ReadOnly are refused.
func TestRegisterReadOnly(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported); err != nil || n == 0 {
		t.Skip("the device cannot register read-only memory")
	}
	s := must(ferry.NewStream(g, nil))(t)
	r := must(ferry.Register(g, make([]byte, 4096), &ferry.RegisterOptions{ReadOnly: true}))(t)
	d := must(ferry.Alloc[byte](g, 4096))(t)
	check(t, ferry.Copy(s, d, r))
	wantError(t, ferry.Copy(s, r, d), cu.ErrorInvalidValue, "is read-only")
	wantError(t, ferry.Fill(s, r, 1), cu.ErrorInvalidValue, "is read-only")
	closeAll(t, r, d, s)
}

// TestRegisterBesideCopy: a slice can be registered, and the registration closed, while
// another goroutine copies it as a Pageable slice.
func TestRegisterBesideCopy(t *testing.T) {
	g := openRegister(t)
	for _, n := range []int{4 << 10, 1 << 20} { // by the driver, through the staging ring
		s := must(ferry.NewStream(g, nil))(t)
		memory, want := make([]byte, n), make([]byte, n)
		fillRandom(want)
		copy(memory, want)
		device, back := must(ferry.Alloc[byte](g, n))(t), make([]byte, n)
		rounds := 400
		if testing.Short() {
			rounds /= 4
		}
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			var err error
			for copied := 0; err == nil; copied++ {
				select {
				case <-stop:
					if copied > 0 {
						ended <- nil
						return
					}
				default:
				}
				err = errors.Join(ferry.Copy(s, device, ferry.Pageable(memory)), ferry.Copy(s, ferry.Pageable(back), device),
					ferry.CopyRect(s, ferry.Rect[byte]{Memory: device, Width: 64, Height: 8, Pitch: 128}, ferry.Rect[byte]{Memory: ferry.Pageable(memory), Width: 64, Height: 8, Pitch: 128}))
				if err == nil && !bytes.Equal(back, want) {
					err = errors.New("the bytes differ")
				}
			}
			ended <- err
		}()
		for range rounds {
			h := must(ferry.Register(g, memory, nil))(t)
			if !bytes.Equal(h.ReadSlice(), want) {
				t.Error("the bytes of the registered buffer differ")
			}
			check(t, h.Close())
		}
		close(stop)
		check(t, <-ended)
		closeAll(t, device, s)
	}
}

// registeringDriver registers memory just before it copies from it.
type registeringDriver struct {
	cu.Driver
	register func()
}

func (d *registeringDriver) Unwrap() cu.Driver { return d.Driver }

func (d *registeringDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.register != nil {
		d.register()
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

// TestRegisterDuringCopy: the driver queues a copy of page-locked memory, also if the memory
// was pageable when Copy began. Copy waits for it, and Close of the registration does.
func TestRegisterDuringCopy(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	d := &registeringDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 4096)
	device := must(ferry.Alloc[byte](g, len(memory)))(t)
	var h *ferry.Host[byte]
	registered := make(chan struct{})
	d.register = func() {
		h = must(ferry.Register(g, memory, nil))(t)
		close(registered)
	}
	open := gate(t, s)
	copied, closed := make(chan error, 1), make(chan error, 1)
	go func() { copied <- ferry.Copy(s, device, ferry.Pageable(memory)) }()
	<-registered
	go func() { closed <- h.Close() }()
	select {
	case err := <-copied:
		open()
		t.Fatalf("Copy did not wait: %v", err)
	case err := <-closed:
		open()
		t.Fatalf("Close did not wait for the copy: %v", err)
	case <-time.After(shortWait):
	}
	open()
	check(t, <-copied)
	check(t, <-closed)
	closeAll(t, device, s)
}

// TestRegisterPartDuringCopy: Copy looks again when a part of its slice was registered
// meanwhile, because the driver does not copy across the start of a registration.
func TestRegisterPartDuringCopy(t *testing.T) {
	d := &registeringDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 16<<10)
	fillRandom(memory)
	device, back := must(ferry.Alloc[byte](g, len(memory)))(t), make([]byte, len(memory))
	var h *ferry.Host[byte]
	d.register = func() {
		d.register = nil
		h = must(ferry.Register(g, memory[4096:8192], nil))(t)
	}
	check(t, ferry.Copy(s, device, ferry.Pageable(memory)))
	check(t, ferry.Copy(s, ferry.Pageable(back), device))
	if !bytes.Equal(back, memory) {
		t.Error("the bytes differ")
	}
	closeAll(t, h, device, s)
}

// flagDriver keeps the flags of registrations, and takes I/O memory as ordinary memory.
type flagDriver struct {
	cu.Driver
	flags []cu.MemHostRegisterFlags
}

func (d *flagDriver) MemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error {
	d.flags = append(d.flags, flags)
	return d.Driver.MemHostRegister(ctx, p, bytes, flags&^cu.MemHostRegisterIOMemory)
}

// TestRegisterIOMemory: the option reaches the driver, a refusal says why and leaves nothing behind,
// and memory is not registered both ways at once.
func TestRegisterIOMemory(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	soft := softDriver(t, "h200", 1, softgpu.Eager)
	g := must(ferry.OpenDriver(soft, 0))(t)
	memory, io := make([]byte, 8192), &ferry.RegisterOptions{IOMemory: true}
	_, err := ferry.Register(g, memory, io)
	wantError(t, err, cu.ErrorInvalidValue, "register", "no I/O memory")
	closeAll(t, must(ferry.Register(g, memory, nil))(t), g)

	d := &flagDriver{Driver: soft}
	g = must(ferry.OpenDriver(d, 0))(t)
	h := must(ferry.Register(g, memory, io))(t)
	if want := []cu.MemHostRegisterFlags{cu.MemHostRegisterIOMemory | cu.MemHostRegisterPortable}; !slices.Equal(d.flags, want) {
		t.Errorf("the driver got the flags %v, want %v", d.flags, want)
	}
	_, err = ferry.Register(g, memory[4096:], nil)
	wantError(t, err, cu.ErrorHostMemoryAlreadyRegistered, "another IOMemory")
	both := must(ferry.Register(g, memory[:4096], io))(t)
	closeAll(t, h, both)
	plain := must(ferry.Register(g, memory, nil))(t)
	_, err = ferry.Register(g, memory[100:200], io)
	wantError(t, err, cu.ErrorHostMemoryAlreadyRegistered, "another IOMemory")
	closeAll(t, plain, g)
}
