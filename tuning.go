package ferry

import (
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/profile"
)

// tuning is the settings for one machine. They come from its profile, which holds
// measurements. Without a profile they are defaults that suit most machines.
type tuning struct {
	profile *profile.Profile // nil if there is none
	wait    await.Settings
	copy    copyTuning
	launch  launchTuning
	pinFrom uintptr // Ferry page-locks buffers of at least this size itself
	pin     pin.Settings
	ring    staging.Settings

	// The driver makes pageable copies of at most these sizes, without the ring.
	directIn, directOut uintptr
}

// Settings of package ferry itself. Package profile documents the fields.
type (
	copyTuning struct {
		SmallBytes, LargeBytes, KernelCopyBytes, KernelBlockBytes uintptr
		KernelCopies, KernelThreads, KernelBlocks                 int
	}
	launchTuning  struct{ Threads, Blocks int }
	pinTuning     struct{ From uintptr }
	stagingTuning struct{ DirectHtoD, DirectDtoH uintptr }
)

// tuningFor returns the tuning for the machine that a software GPU emulates or, if
// emulated is nil, for hardware with a device of this name.
func tuningFor(emulated cu.Emulated, name string) tuning {
	t := tuning{
		wait: await.Settings{Spin: 200 * time.Microsecond, Busy: 10 * time.Millisecond, Pause: 50 * time.Microsecond, Waiters: runtime.GOMAXPROCS(0)},
		copy: copyTuning{SmallBytes: 64 << 10, LargeBytes: 4 << 20, KernelCopyBytes: 64 << 10, KernelBlockBytes: 16 << 10,
			KernelCopies: 8, KernelThreads: 256, KernelBlocks: 8},
		launch: launchTuning{128, 16}, // 2048 threads, the most that a multiprocessor runs
		pin:    pin.DefaultSettings(),
		ring:   staging.DefaultSettings(),
	}
	from := pinTuning{64 << 10}                 // not less: each buffer is a mapping, and a process can have some 65,000
	direct := stagingTuning{64 << 10, 64 << 10} // drivers copy up to this size without waiting for the device
	if t.profile = profileFor(emulated, name); t.profile != nil {
		k := &t.profile.Tuning
		profile.Apply(k.Wait, &t.wait)
		profile.Apply(k.Copy, &t.copy)
		profile.Apply(k.Launch, &t.launch)
		profile.Apply(k.Pin, &t.pin)
		profile.Apply(k.Pin, &from)
		profile.Apply(k.Staging, &t.ring)
		if s := &t.profile.Staging; s.Chunk.Int() > 0 {
			profile.Apply(*s, &t.ring)
			profile.Apply(*s, &direct)
			t.ring.Workers = s.Threads.Int()
		}
	}
	t.pinFrom, t.directIn, t.directOut = from.From, direct.DirectHtoD, direct.DirectDtoH
	return t
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

// emulatedHost returns the host memory of an emulated machine, nil for hardware.
func emulatedHost(d cu.Emulated) func() *pin.Emulated {
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
