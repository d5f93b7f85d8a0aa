package softgpu

import (
	"errors"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestPlaces: the UUID, the PCI address and its attribute are those of the place of a device in the machine.
func TestPlaces(t *testing.T) {
	open := func(places ...int) *Driver {
		d, err := Open(Options{Devices: 2, Places: places})
		if err == nil {
			err = d.Init(0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	whole, turned := open(), open(1, 0)
	for i := range cu.Device(2) {
		uuid, err := turned.DeviceGetUuid(i)
		want, _ := whole.DeviceGetUuid(1 - i)
		if err != nil || uuid != want {
			t.Errorf("device %d: UUID %x, %v, want %x", i, uuid, err, want)
		}
		pci, err := turned.DeviceGetPCIBusId(i)
		address, _ := whole.DeviceGetPCIBusId(1 - i)
		if err != nil || pci != address {
			t.Errorf("device %d: %s, %v, want %s", i, pci, err, address)
		}
		bus, err := turned.DeviceGetAttribute(cu.DeviceAttributePCIBusID, i)
		number, _ := whole.DeviceGetAttribute(cu.DeviceAttributePCIBusID, 1-i)
		if err != nil || bus != number {
			t.Errorf("device %d: bus %d, %v, want %d", i, bus, err, number)
		}
	}
	for _, places := range [][]int{{}, {0}, {0, 0}, {0, -1}, {0, maxDevices}, {0, 1, 2}} {
		if _, err := Open(Options{Devices: 2, Places: places}); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("places %v: %v", places, err)
		}
	}
}
