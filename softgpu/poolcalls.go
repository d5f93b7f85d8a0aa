package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// pool finds a pool by its handle.
func (d *Driver) pool(h cu.MemPool, what string) (*pool, error) {
	p, err := lookup[*pool](d, uintptr(h), what, "memory pool")
	if err != nil && h == 0 {
		return nil, refuse(cu.ErrorInvalidValue, what, "the pool is zero")
	}
	return p, err
}

// poolCall is a call about a pool.
func (d *Driver) poolCall(h cu.MemPool, what string, f func(*pool) error) error {
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	p, err := d.pool(h, what)
	if err != nil {
		return err
	}
	return f(p)
}

// hasPools refuses where the device has none.
func (dev *device) hasPools(what string) error {
	if dev.attr(cu.DeviceAttributeMemoryPoolsSupported) == 0 {
		return dev.lacks(what, cu.DeviceAttributeMemoryPoolsSupported)
	}
	return nil
}

// DeviceGetDefaultMemPool is the pool that a device starts with.
func (d *Driver) DeviceGetDefaultMemPool(h cu.Device) (cu.MemPool, error) {
	const what = "get the default pool"
	return deviceCall(d, h, what, func(dev *device) (cu.MemPool, error) {
		return dev.defaultPool.handle, dev.hasPools(what)
	})
}

// DeviceGetMemPool is the device's current pool.
func (d *Driver) DeviceGetMemPool(h cu.Device) (cu.MemPool, error) {
	const what = "get the current pool"
	return deviceCall(d, h, what, func(dev *device) (cu.MemPool, error) {
		return dev.pool.handle, dev.hasPools(what)
	})
}

// DeviceSetMemPool makes a pool the current one.
func (d *Driver) DeviceSetMemPool(h cu.Device, mp cu.MemPool) error {
	const what = "set the current pool"
	_, err := deviceCall(d, h, what, func(dev *device) (int, error) {
		if err := dev.hasPools(what); err != nil {
			return 0, err
		}
		p, err := d.pool(mp, what)
		if err != nil {
			return 0, err
		}
		if p.dev != dev {
			return 0, refuse(cu.ErrorInvalidValue, what, "the pool is of device %d", p.dev.ordinal)
		}
		dev.pool = p
		return 0, nil
	})
	return err
}

// MemPoolCreate makes a pool of device memory.
func (d *Driver) MemPoolCreate(props *cu.MemPoolProps) (cu.MemPool, error) {
	const what = "create a pool"
	if props == nil {
		return 0, refuse(cu.ErrorInvalidValue, what, "there are no properties")
	}
	q := *props
	if q.AllocType != cu.MemAllocationTypePinned || q.LocationType != cu.MemLocationTypeDevice {
		return 0, refuse(cu.ErrorInvalidValue, what, "allocation type %d at location type %d: the software GPU has pools of device memory", q.AllocType, q.LocationType)
	}
	if q.LocationID < 0 || int(q.LocationID) >= len(d.devices) {
		return 0, refuse(cu.ErrorInvalidValue, what, "no device %d, there are %d", q.LocationID, len(d.devices))
	}
	return deviceCall(d, cu.Device(q.LocationID), what, func(dev *device) (cu.MemPool, error) {
		if err := dev.hasPools(what); err != nil {
			return 0, err
		}
		if q.HandleTypes != 0 {
			return 0, refuse(cu.ErrorNotSupported, what, "the software GPU shares no memory with other processes")
		}
		p := &pool{dev: dev, max: uint64(q.MaxSize)}
		p.reset()
		p.handle = cu.MemPool(d.newHandle(p))
		dev.pools = append(dev.pools, p)
		return p.handle, nil
	})
}

// reset gives the settings that a new pool has.
func (p *pool) reset() { p.reuse = [4]uint64{1: 1, 2: 1, 3: 1} }

// MemPoolDestroy frees a pool once its last allocation is freed.
func (d *Driver) MemPoolDestroy(h cu.MemPool) error {
	const what = "destroy a pool"
	return d.poolCall(h, what, func(p *pool) error {
		if p.def {
			return refuse(cu.ErrorInvalidValue, what, "a device keeps its default pool")
		}
		delete(d.handles, uintptr(h))
		p.destroyed = true
		if p.dev.pool == p {
			p.dev.pool = p.dev.defaultPool
		}
		if p.live == 0 {
			p.dev.pools = slices.DeleteFunc(p.dev.pools, func(x *pool) bool { return x == p })
		}
		return nil
	})
}

// MemPoolTrimTo gives unused memory back down to keep bytes.
func (d *Driver) MemPoolTrimTo(h cu.MemPool, keep uintptr) error {
	return d.poolCall(h, "trim a pool", func(p *pool) error {
		p.trim(uint64(keep))
		return nil
	})
}

// MemPoolGetAttribute reads a setting or counter.
func (d *Driver) MemPoolGetAttribute(h cu.MemPool, attr cu.MemPoolAttribute) (value uint64, err error) {
	const what = "read a pool's attribute"
	err = d.poolCall(h, what, func(p *pool) error {
		switch attr {
		case cu.MemPoolAttrReuseFollowEventDependencies, cu.MemPoolAttrReuseAllowOpportunistic, cu.MemPoolAttrReuseAllowInternalDependencies:
			value = p.reuse[attr]
		case cu.MemPoolAttrReleaseThreshold:
			value = p.threshold
		case cu.MemPoolAttrReservedMemCurrent:
			value = p.reserved
		case cu.MemPoolAttrReservedMemHigh:
			value = p.reservedHigh
		case cu.MemPoolAttrUsedMemCurrent:
			value = p.used
		case cu.MemPoolAttrUsedMemHigh:
			value = p.usedHigh
		default:
			return refuse(cu.ErrorInvalidValue, what, "no attribute %d", attr)
		}
		return nil
	})
	return value, err
}

// MemPoolSetAttribute writes a setting, or resets a high-water mark.
func (d *Driver) MemPoolSetAttribute(h cu.MemPool, attr cu.MemPoolAttribute, value uint64) error {
	const what = "set a pool's attribute"
	return d.poolCall(h, what, func(p *pool) error {
		high := attr == cu.MemPoolAttrReservedMemHigh || attr == cu.MemPoolAttrUsedMemHigh
		switch {
		case high && value != 0:
			return refuse(cu.ErrorInvalidValue, what, "a high-water mark can only be set to 0, not %d", value)
		case attr == cu.MemPoolAttrReservedMemHigh:
			p.reservedHigh = p.reserved
		case attr == cu.MemPoolAttrUsedMemHigh:
			p.usedHigh = p.used
		case attr == cu.MemPoolAttrReleaseThreshold:
			p.threshold = value
		case attr >= cu.MemPoolAttrReuseFollowEventDependencies && attr <= cu.MemPoolAttrReuseAllowInternalDependencies:
			if value > 1 {
				return refuse(cu.ErrorInvalidValue, what, "%d is neither 0 nor 1", value)
			}
			p.reuse[attr] = value
		default:
			return refuse(cu.ErrorInvalidValue, what, "attribute %d cannot be set", attr)
		}
		return nil
	})
}
