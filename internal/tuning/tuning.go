package tuning

import (
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/profile"
)

// Settings are the settings for one machine. They come from its profile, which holds
// measurements. Without a profile they are defaults that suit most machines.
type Settings struct {
	Profile *profile.Profile // nil if there is none
	Wait    await.Settings
	Copy    Copy
	Launch  Launch
	PinFrom uintptr // Ferry page-locks buffers of at least this size itself
	Pin     pin.Settings
	Ring    staging.Settings

	// The driver makes pageable copies of at most these sizes, without the ring.
	DirectIn, DirectOut uintptr
}

// Copy is the settings of copies by the driver and by the copy kernel. Package profile
// documents the fields.
type Copy struct {
	SmallBytes, LargeBytes, KernelCopyBytes, KernelBlockBytes uintptr
	KernelCopies, KernelThreads, KernelBlocks                 int
}

// Launch is the settings of launches. Package profile documents the fields.
type Launch struct{ Threads, Blocks int }

// What For needs of a profile beside the fields of Settings.
type (
	pinning struct{ From uintptr }
	direct  struct{ DirectHtoD, DirectDtoH uintptr }
)

// For returns the settings for the machine that a software GPU emulates or, if emulated is
// nil, for hardware with a device of this name.
func For(emulated cu.Emulated, name string) Settings {
	t := Settings{
		Wait: await.Settings{Spin: 200 * time.Microsecond, Busy: 10 * time.Millisecond, Pause: 50 * time.Microsecond, Waiters: runtime.GOMAXPROCS(0)},
		Copy: Copy{SmallBytes: 64 << 10, LargeBytes: 4 << 20, KernelCopyBytes: 64 << 10, KernelBlockBytes: 16 << 10,
			KernelCopies: 8, KernelThreads: 256, KernelBlocks: 8},
		Launch: Launch{128, 16}, // 2048 threads, the most that a multiprocessor runs
		Pin:    pin.DefaultSettings(),
		Ring:   staging.DefaultSettings(),
	}
	from := pinning{64 << 10}           // not less: each buffer is a mapping, and a process can have some 65,000
	small := direct{64 << 10, 64 << 10} // drivers copy up to this size without waiting for the device
	if t.Profile = profileFor(emulated, name); t.Profile != nil {
		k := &t.Profile.Tuning
		profile.Apply(k.Wait, &t.Wait)
		profile.Apply(k.Copy, &t.Copy)
		profile.Apply(k.Launch, &t.Launch)
		profile.Apply(k.Pin, &t.Pin)
		profile.Apply(k.Pin, &from)
		profile.Apply(k.Staging, &t.Ring)
		if s := &t.Profile.Staging; s.Chunk.Int() > 0 {
			profile.Apply(*s, &t.Ring)
			profile.Apply(*s, &small)
			t.Ring.Workers = s.Threads.Int()
		}
	}
	t.PinFrom, t.DirectIn, t.DirectOut = from.From, small.DirectHtoD, small.DirectDtoH
	if emulated == nil && runtime.GOMAXPROCS(0) <= fewProcessors {
		t.DirectIn, t.DirectOut = max(t.DirectIn, fewDirect), max(t.DirectOut, fewDirect)
	}
	return t
}

// With fewProcessors or less, the driver's thread is faster than the ring's up to fewDirect bytes in both
// directions, whatever the GPU: docs/notes/staging.md, "Fewer processors".
const (
	fewProcessors = 3
	fewDirect     = 1 << 20
)

// Directly reports whether the driver makes the pageable copies of a CopyAll in one
// direction. For one copy the rule is that of Copy. For several the ring is faster, except
// for few small ones to the device. From the device, the driver waits for the stream in each.
func (t *Settings) Directly(in bool, count int, bytes uintptr) bool {
	switch {
	case count == 1 && in:
		return bytes <= t.DirectIn
	case count == 1:
		return bytes <= t.DirectOut
	}
	return in && count < t.Copy.KernelCopies && bytes <= min(t.DirectIn, t.Copy.SmallBytes)
}

// profileFor returns the profile of a machine, or nil if there is none.
func profileFor(emulated cu.Emulated, name string) *profile.Profile {
	if e, ok := emulated.(interface{ Machine() *profile.Profile }); ok {
		return e.Machine()
	}
	if emulated != nil { // an emulated device without a profile
		return nil
	}
	return profile.ForDevice(name)
}

// EmulatedHost returns the host memory of an emulated machine, nil for hardware.
func EmulatedHost(d cu.Emulated) func() *pin.Emulated {
	if d == nil {
		return nil
	}
	return func() *pin.Emulated {
		h, ok := d.(interface{ HostMemory() (left, total uint64) })
		if !ok {
			return nil
		}
		left, total := h.HostMemory()
		return &pin.Emulated{Name: d.Profile(), Left: left, Total: total, Node: emulatedNode(d)}
	}
}

// emulatedNode returns the NUMA node of an emulated machine, whose profiles name the one
// that is nearest to the device. It is 0 where the profile names none.
func emulatedNode(d cu.Emulated) int {
	node, _ := profileFor(d, "").Attribute(cu.DeviceAttributeHostNUMAID)
	return int(max(0, node))
}
