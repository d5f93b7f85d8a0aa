//go:build !race && !hosttsan

package softgpu

import "github.com/ferrygpu/ferry/softgpu/internal/simt"

const raceBuild = false

// raceVisible is the largest allocation of device memory that the race detector
// sees.
const raceVisible = 0

// raceWorkers is the number of cores that run a kernel: 0 for all.
const raceWorkers = 0

// State for the race detector of an op, a kernel and a driver: none in this
// build.
type (
	opRace     struct{}
	viewRace   struct{}
	driverRace struct{}
)

func (*driverRace) raceLimitQueue()           {}
func (*opRace) raceSubmit([]*op)              {}
func (*opRace) raceDone()                     {}
func (*op) raceAcquire()                      {}
func (*op) raceSignal([]byte)                 {}
func (*op) raceWaited([]byte)                 {}
func (*viewRace) raceWatch(*op)               {}
func (*viewRace) accessCount() uint64         { return 0 }
func (*viewRace) raceEnd()                    {}
func (*region) raceFree()                     {}
func (*viewRace) watchOrdinary(*simt.Segment) {}
func (*viewRace) watch(*region) simt.Watch    { return nil }

func (o *op) raceHostFunc(h *hostFuncs, fn func()) error { return h.call(fn) }

// start executes o on a goroutine of its own.
func (d *Driver) start(o *op) { go d.execute(o) }

// reserveHost reserves memory with host addresses, reserveDevice memory of a
// device.
func reserveHost(n int) (*backing, error)   { return reserve(n) }
func reserveDevice(n int) (*backing, error) { return reserve(n) }
