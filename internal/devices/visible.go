package devices

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
)

// visibleVariable names devices by their numbers, or by UUIDs or the beginnings of UUIDs, as seen on two H200s
// with driver 580.159.04. The first name says of which kind they are. Those behind the first that is not
// there, or of the other kind, are hidden. A device that comes twice is an error.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// visible returns the places of the devices that the variable shows, in its order: nil if it is not set. It
// is an error if there is none.
func (n Name) visible() (places []int, err error) {
	list, set := os.LookupEnv(visibleVariable)
	if !set {
		return nil, nil
	}
	find := n.numbered
	if strings.HasPrefix(list, "GPU-") {
		find = n.identified()
	}
	for text := range strings.SplitSeq(list, ",") {
		place := find(text)
		if place < 0 {
			break
		}
		if slices.Contains(places, place) {
			return nil, fmt.Errorf("%s=%s names a device twice: %w", visibleVariable, printable.Value(list), cu.ErrorInvalidDevice)
		}
		places = append(places, place)
	}
	why := ""
	if strings.HasPrefix(list, "MIG-") {
		why = ": the software GPU has no MIG instances"
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("%s=%s hides all devices%s: %w", visibleVariable, printable.Value(list), why, cu.ErrorNoDevice)
	}
	return places, nil
}

// numbered returns the place of the device with a number, or -1. What follows the digits does not count.
func (n Name) numbered(text string) int {
	text = strings.TrimPrefix(strings.TrimLeft(text, " \t"), "+")
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	place, err := strconv.Atoi(digits)
	if err != nil || place >= n.Count {
		return -1
	}
	return place
}

// identified returns a function that returns the place of the only device with a UUID, or a beginning of
// one, or -1.
func (n Name) identified() func(text string) int {
	uuids := n.uuids()
	return func(text string) int {
		text, ok := strings.CutPrefix(text, "GPU-")
		text = strings.ToLower(strings.ReplaceAll(text, "-", ""))
		text = text[:min(len(text), uuidDigits)] // what follows a whole UUID does not count
		begins := func(uuid string) bool { return strings.HasPrefix(uuid, text) }
		place := slices.IndexFunc(uuids, begins)
		if !ok || text == "" || place < 0 || slices.ContainsFunc(uuids[place+1:], begins) {
			return -1
		}
		return place
	}
}

const uuidDigits = 32

// uuids returns the digits of each device's UUID. Drivers before CUDA 11.4 tell none.
func (n Name) uuids() (all []string) {
	machine, err := n.Machine()
	if err != nil || machine.Init(0) != nil {
		return nil // the error is that of the machine itself
	}
	for i := range n.Count {
		u, err := machine.DeviceGetUuid(cu.Device(i))
		if err != nil {
			return nil
		}
		all = append(all, fmt.Sprintf("%x", u))
	}
	return all
}
