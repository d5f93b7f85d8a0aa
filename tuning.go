package ferry

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/profile"
)

// tuning is the numbers about a machine that Ferry decides by. They come from the
// profile of a machine that was measured, and else are defaults that suit most machines.
type tuning struct {
	profile *profile.Profile // nil if there is none
	wait    waitTuning
	copy    copyTuning
	launch  launchTuning
	pinFrom uintptr // from this size on Ferry page-locks by itself
	pin     pin.Settings
	ring    staging.Settings

	// Pageable copies up to these sizes are left to the driver.
	directIn, directOut uintptr
}

// The settings of package ferry itself. package profile says what the fields are.
type (
	waitTuning struct{ Spin time.Duration }
	copyTuning struct {
		SmallBytes, LargeBytes, KernelCopyBytes, KernelBlockBytes uintptr
		KernelCopies, KernelThreads, KernelBlocks                 int
	}
	launchTuning  struct{ Threads, Blocks int }
	pinTuning     struct{ From uintptr }
	stagingTuning struct{ DirectHtoD, DirectDtoH uintptr }
)

// tuningFor is the tuning of a machine: the one that a software GPU emulates, or
// hardware with a device of this name.
func tuningFor(emulated cu.Emulated, name string) tuning {
	t := tuning{
		wait: waitTuning{20 * time.Microsecond},
		copy: copyTuning{SmallBytes: 64 << 10, LargeBytes: 4 << 20, KernelCopyBytes: 64 << 10, KernelBlockBytes: 16 << 10,
			KernelCopies: 8, KernelThreads: 256, KernelBlocks: 8},
		launch: launchTuning{128, 16}, // 2048 threads, what a multiprocessor has room for
		pin:    pin.DefaultSettings(),
		ring:   staging.DefaultSettings(),
	}
	from := pinTuning{64 << 10}                 // each is a mapping, of which a process can have some 65,000
	direct := stagingTuning{64 << 10, 64 << 10} // what drivers copy without waiting for the device
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

// profileFor is the profile of a machine, nil if there is none.
func profileFor(emulated cu.Emulated, name string) *profile.Profile {
	if e, ok := emulated.(interface{ Machine() *profile.Profile }); ok {
		return e.Machine()
	}
	if emulated != nil { // software that tells no profile
		return nil
	}
	return profile.ForDevice(name)
}
