package devices

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
)

// visibleVariable names devices by their numbers, or by UUIDs or the beginnings of UUIDs. Those behind the
// first that is not there, or that comes twice, are hidden, as NVIDIA's driver does.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// visible returns the places of the devices that the variable shows, in its order: nil if it is not set. It
// is an error if there is none.
func (n Name) visible() (places []int, err error) {
	list, set := os.LookupEnv(visibleVariable)
	if !set {
		return nil, nil
	}
	places, why := n.shown(list)
	if len(places) > 0 {
		return places, nil
	}
	if why != "" {
		why = ": " + why
	}
	return nil, fmt.Errorf("%s=%s hides all devices%s: %w", visibleVariable, printable.Value(list), why, cu.ErrorNoDevice)
}

// shown returns the places of the devices that a list shows. why is what is wrong with the first text that
// shows none, if there is more to say than that.
func (n Name) shown(list string) (places []int, why string) {
	uuids := sync.OnceValue(n.uuids)
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		place, err := strconv.Atoi(text)
		switch {
		case strings.HasPrefix(text, "MIG-"):
			return places, "the software GPU has no MIG instances"
		case strings.HasPrefix(text, "GPU-"):
			begins := func(uuid string) bool { return strings.HasPrefix(uuid, text) }
			if place = slices.IndexFunc(uuids(), begins); place >= 0 && slices.ContainsFunc(uuids()[place+1:], begins) {
				return places, "several devices have a UUID that begins with " + printable.Value(text)
			}
		case err != nil:
			return places, ""
		}
		if place < 0 || place >= n.Count || slices.Contains(places, place) {
			return places, ""
		}
		places = append(places, place)
	}
	return places, ""
}

// uuids returns the UUID of each device. Drivers before CUDA 11.4 tell none.
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
		all = append(all, fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
	}
	return all
}
