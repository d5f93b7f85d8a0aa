package softgpu

import "github.com/ferrygpu/ferry/cu"

// poolPlace returns the device whose pools a place has. The software GPU has pools of device memory
// alone, and says so for the other places that exist.
func (d *Driver) poolPlace(at *cu.MemLocation, kind uint32, what string) (*device, error) {
	if at == nil {
		return nil, refuse(cu.ErrorInvalidValue, what, "the location is nil")
	}
	managed := kind == cu.MemAllocationTypeManaged
	switch {
	case at.Type > cu.MemLocationTypeHostNUMA:
		return nil, refuse(cu.ErrorNotSupported, what, "location type %d has no pools", at.Type)
	case kind != cu.MemAllocationTypePinned && !managed:
		return nil, refuse(cu.ErrorInvalidValue, what, "allocation type %d is neither pinned (1) nor managed (2)", kind)
	case at.Type == cu.MemLocationTypeNone && !managed:
		return nil, refuse(cu.ErrorInvalidValue, what, "pinned memory has a place: location type 0 is for managed memory")
	case at.Type == cu.MemLocationTypeDevice && (at.ID < 0 || int(at.ID) >= len(d.devices)):
		return nil, refuse(cu.ErrorInvalidValue, what, "no device %d, there are %d", at.ID, len(d.devices))
	case at.Type == cu.MemLocationTypeHostNUMA:
		if _, err := d.destination(*at, what); err != nil {
			return nil, err
		}
	}
	if at.Type != cu.MemLocationTypeDevice || managed {
		return nil, refuse(cu.ErrorNotSupported, what, "allocation type %d at location type %d: the software GPU has only pools of device memory", kind, at.Type)
	}
	dev := d.devices[at.ID]
	return dev, dev.hasPools(what)
}

// noPoolAt returns why no pool can be made at a place that is no device. Drivers before CUDA 12.6 know
// no such place, and those before 13.0 no managed memory in pools.
func (d *Driver) noPoolAt(q cu.MemPoolProps, what string) error {
	at := cu.MemLocation{Type: q.LocationType, ID: q.LocationID}
	if v := d.prof.Driver.Value; v < 12060 || q.AllocType == cu.MemAllocationTypeManaged && v < 13000 ||
		at.Type >= cu.MemLocationTypeHostNUMACurrent {
		return refuse(cu.ErrorInvalidValue, what, "allocation type %d at location type %d: this driver has no pools there", q.AllocType, q.LocationType)
	}
	if _, err := d.poolPlace(&at, q.AllocType, what); err != nil {
		return err
	}
	return refuse(cu.ErrorInvalidValue, what, "no pool there")
}

// placeCall runs a call about the pools of a place.
func placeCall[T any](d *Driver, call, what string, at *cu.MemLocation, kind uint32, f func(*device) (T, error)) (none T, err error) {
	if err := d.since(call, 13000); err != nil {
		return none, err
	}
	if err := d.begin(what); err != nil {
		return none, err
	}
	defer d.mu.Unlock()
	dev, err := d.poolPlace(at, kind, what)
	if err != nil {
		return none, err
	}
	return f(dev)
}

// MemGetDefaultMemPool returns the pool that a place starts with.
func (d *Driver) MemGetDefaultMemPool(at *cu.MemLocation, kind uint32) (cu.MemPool, error) {
	return placeCall(d, "cuMemGetDefaultMemPool", "get the default pool of a place", at, kind,
		func(dev *device) (cu.MemPool, error) { return dev.defaultPool.handle, nil })
}

// MemGetMemPool returns the current pool of a place.
func (d *Driver) MemGetMemPool(at *cu.MemLocation, kind uint32) (cu.MemPool, error) {
	return placeCall(d, "cuMemGetMemPool", "get the current pool of a place", at, kind,
		func(dev *device) (cu.MemPool, error) { return dev.pool.handle, nil })
}

// MemSetMemPool makes a pool the current one of a place.
func (d *Driver) MemSetMemPool(at *cu.MemLocation, kind uint32, pool cu.MemPool) error {
	const what = "set the current pool of a place"
	_, err := placeCall(d, "cuMemSetMemPool", what, at, kind, func(dev *device) (int, error) {
		return 0, dev.setPool(pool, what)
	})
	return err
}
