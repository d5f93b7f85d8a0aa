//go:build !race

package softgpu

import "github.com/ferrygpu/ferry/internal/simt"

const raceBuild = false

// raceVisible is the largest piece of device memory that the race detector is told of.
const raceVisible = 0

// raceWorkers is how many cores run a kernel: all.
const raceWorkers = 0

// What the race detector is told of an operation, a kernel, a driver: nothing here.
type (
	opRace     struct{}
	viewRace   struct{}
	driverRace struct{}
)

func (*driverRace) raceRoom()                 {}
func (*opRace) raceSubmit([]*op)              {}
func (*opRace) raceDone()                     {}
func (*op) raceAcquire()                      {}
func (*viewRace) raceWatch(*op)               {}
func (*viewRace) told() uint64                { return 0 }
func (*viewRace) raceEnd()                    {}
func (*region) raceFree()                     {}
func (*viewRace) watchOrdinary(*simt.Segment) {}
func (*viewRace) watch(*region) simt.Watch    { return nil }

func (o *op) raceHostFunc(h *hostFuncs, fn func()) error { return h.call(fn) }

// moveBytes is copy.
func moveBytes(dst, src []byte) int { return copy(dst, src) }

// reserveHost takes memory for the host's own addresses, reserveDevice for a device.
func reserveHost(n int) (*backing, error)   { return reserve(n) }
func reserveDevice(n int) (*backing, error) { return reserve(n) }
