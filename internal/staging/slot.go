package staging

import "github.com/ferrygpu/ferry/cu"

// slot is a piece of the ring. The fields above state do not change after the slot is
// made. The transfer that has taken the slot, its coordinator and its workers, owns mem.
type slot struct {
	host   cu.HostPtr
	mem    []byte
	class  slotClass
	unlock func() error
	event  cu.Event // of the last copy that the device was given

	// Ring.mu guards these:
	state    slotState
	owner    *transfer // that took it last; nil when free, and when that has ended
	sequence uint64    // value of Ring.submitted when it was submitted
	stream   cu.Stream // that it was submitted in
	streamID int       // Job.StreamID of that stream
	lost     bool      // nothing tells when the device is done with it; its owner sets it while the slot is taken
}

type slotState uint8

const (
	slotFree     slotState = iota
	slotTaken              // a transfer reads or writes it
	slotInFlight           // the device may read or write it, and no goroutine waits for the device
	slotLost               // the device may read or write it until the ring is closed
)
