package ferry

import (
	"fmt"
	"slices"
	"weak"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// peerAccess is the peer access that GPUs of one driver have. Access to memory of
// [Alloc] is for pairs of contexts, access to a pool for a pool and a device. The fields are
// guarded by driverState.mu.
type peerAccess struct {
	// allowed has the pairs of contexts of which the first may use memory of the second,
	// with their devices.
	allowed map[[2]cu.Context][2]cu.Device
	pools   []weak.Pointer[MemPool] // of NewMemPool; weak, so that a lost pool can be reported as a leak
	opened  map[openPool]struct{}   // by this package, which closes them again
}

// openPool is a pool that is open to a device besides its own.
type openPool struct {
	pool cu.MemPool
	to   cu.Device
}

// allow records that kernels of g may use memory of other.
func (t *driverState) allow(g, other *GPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers.allowed[[2]cu.Context{g.ctx, other.ctx}] = [2]cu.Device{g.device, other.device}
}

// mayUse reports whether kernels of g may use memory of other.
func (t *driverState) mayUse(g, other *GPU) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, yes := t.peers.allowed[[2]cu.Context{g.ctx, other.ctx}]
	return yes
}

// disallow ends the peer access of a context. It returns the pairs of devices of which the
// first may use memory of the second no more. The caller holds mu.
func (t *driverState) disallow(ctx cu.Context) (ended [][2]cu.Device) {
	for pair, devices := range t.peers.allowed {
		if pair[0] == ctx || pair[1] == ctx {
			delete(t.peers.allowed, pair)
			ended = append(ended, devices)
		}
	}
	return slices.DeleteFunc(ended, func(d [2]cu.Device) bool {
		for _, still := range t.peers.allowed {
			if still == d {
				return true
			}
		}
		return false
	})
}

// openPools opens the memory pools of another GPU to the device of g: the default pool, the
// current one, and those of NewMemPool. Pools that are made later open themselves. There are
// none if the device has no pools.
func openPools(g, other *GPU) error {
	if !other.caps.Pools {
		return nil
	}
	handles, err := sharedPools(other.driver, other.device)
	if err != nil {
		return err
	}
	for _, h := range handles {
		if err := g.shared.open(other.driver, h, g.device); err != nil {
			return err
		}
	}
	for _, p := range g.shared.poolsOf(other.device) {
		if p.enter("open a memory pool") != nil { // it is being closed
			continue
		}
		err := g.shared.open(other.driver, p.driverPool(), g.device)
		p.leave()
		if err != nil {
			return err
		}
	}
	return nil
}

// sharedPools returns the pools of a device that no [MemPool] owns: the default pool and the
// current one.
func sharedPools(d cu.Driver, device cu.Device) ([]cu.MemPool, error) {
	standard, err := d.DeviceGetDefaultMemPool(device)
	if err != nil {
		return nil, err
	}
	current, err := d.DeviceGetMemPool(device)
	if err != nil || current == standard {
		return []cu.MemPool{standard}, err
	}
	return []cu.MemPool{standard, current}, nil
}

// poolsOf returns the pools of NewMemPool that a device has.
func (t *driverState) poolsOf(dev cu.Device) (all []*MemPool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, w := range t.peers.pools {
		if p := w.Value(); p != nil && p.g.device == dev {
			all = append(all, p)
		}
	}
	return all
}

// addPool lists a pool of NewMemPool, and opens it to the devices that may use memory of its
// GPU. It lists the pool first, so that a concurrent EnablePeer does not miss it.
func (t *driverState) addPool(p *MemPool) error {
	t.mu.Lock()
	t.peers.pools = append(t.peers.pools, weak.Make(p))
	var to []cu.Device
	for _, devices := range t.peers.allowed {
		if devices[1] == p.g.device && !slices.Contains(to, devices[0]) {
			to = append(to, devices[0])
		}
	}
	t.mu.Unlock()
	for _, dev := range to {
		if err := t.open(p.g.driver, p.driverPool(), dev); err != nil {
			return err
		}
		if !t.mayUseDevice(dev, p.g.device) { // a Close ended it meanwhile
			if err := t.shut(p.g.driver, p.driverPool(), p.g.device, dev); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropPool ends the listing of a pool that is about to be destroyed.
func (t *driverState) dropPool(p *MemPool) {
	me := weak.Make(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers.pools = slices.DeleteFunc(t.peers.pools, func(w weak.Pointer[MemPool]) bool { return w == me || w.Value() == nil })
	for o := range t.peers.opened {
		if o.pool == p.driverPool() {
			delete(t.peers.opened, o)
		}
	}
}

// open opens a pool to a device, unless it is open.
func (t *driverState) open(d cu.Driver, pool cu.MemPool, to cu.Device) error {
	at := cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(to)}
	flags, err := d.MemPoolGetAccess(pool, &at)
	if err == nil && flags == cu.MemAccessProtReadWrite {
		return nil
	}
	if err == nil {
		err = d.MemPoolSetAccess(pool, []cu.MemAccessDesc{{Location: at, Flags: cu.MemAccessProtReadWrite}})
	}
	if err != nil {
		return fmt.Errorf("open a memory pool to device %d: %w", to, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers.opened[openPool{pool, to}] = struct{}{}
	return nil
}

// closePools closes the pools that openPools has opened, for pairs of devices that have ended
// their peer access. Nothing uses the GPU that ends it any more.
func closePools(t *driverState, d cu.Driver, ended [][2]cu.Device) error {
	var all []error
	for _, devices := range ended {
		to, home := devices[0], devices[1]
		for _, p := range t.poolsOf(home) {
			if p.enter("close a memory pool") == nil {
				all = append(all, t.shut(d, p.driverPool(), home, to))
				p.leave()
			}
		}
		handles, err := sharedPools(d, home)
		all = append(all, err)
		for _, h := range handles {
			all = append(all, t.shut(d, h, home, to))
		}
	}
	return refusal.Join(all...)
}

// shut closes a pool of device home to another device, if open has opened it. A concurrent
// EnablePeer may have found the pool open just before: then shut opens it again.
func (t *driverState) shut(d cu.Driver, pool cu.MemPool, home, to cu.Device) error {
	t.mu.Lock()
	key := openPool{pool, to}
	_, opened := t.peers.opened[key]
	delete(t.peers.opened, key)
	t.mu.Unlock()
	if !opened {
		return nil
	}
	err := d.MemPoolSetAccess(pool, []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(to)}, Flags: cu.MemAccessProtNone}})
	if err != nil {
		return fmt.Errorf("close a memory pool to device %d: %w", to, err)
	}
	if t.mayUseDevice(to, home) {
		return t.open(d, pool, to)
	}
	return nil
}

// mayUseDevice reports whether a GPU of one device may use memory of another device.
func (t *driverState) mayUseDevice(dev, of cu.Device) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, devices := range t.peers.allowed {
		if devices == [2]cu.Device{dev, of} {
			return true
		}
	}
	return false
}

// addressOn returns the address of mapped host memory in kernels of a GPU.
func (a *allocation) addressOn(g *GPU) (cu.DevicePtr, error) {
	host, off := a.host, uint64(0)
	if len(a.entries) > 0 { // the first registration may begin before the buffer
		host = a.entries[0].Host
		off = a.owner.Start - a.entries[0].Start
	}
	p, err := g.driver.MemHostGetDevicePointer(g.ctx, host, 0)
	return p + cu.DevicePtr(off), err
}
