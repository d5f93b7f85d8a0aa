package ferry

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// CanAccessPeer says whether kernels of g can be let use the memory of another GPU
// (cuDeviceCanAccessPeer). A GPU can use its own. GPUs of different drivers cannot
// use each other's.
func (g *GPU) CanAccessPeer(other *GPU) (bool, error) {
	if err := g.enterPeer("ask for peer access", other); err != nil {
		return false, err
	}
	defer g.leave()
	defer other.leave()
	switch {
	case !sameDriver(g.driver, other.driver):
		return false, nil
	case g.device == other.device:
		return true, nil
	}
	can, err := g.driver.DeviceCanAccessPeer(g.device, other.device)
	if err != nil {
		return false, fmt.Errorf("ask for peer access of %s to %s: %w", g.label, other.label, err)
	}
	return can != 0, nil
}

// EnablePeer lets kernels of g use the device memory of another GPU
// (cuCtxEnablePeerAccess), and [Copy] between the two go its straight way. It
// holds for all that is open on the two devices, until their last GPU is closed;
// for the other direction there is a call of its own. Once more, or of a GPU with
// itself, is a success. Where [GPU.CanAccessPeer] is false, the error wraps
// cu.ErrorPeerAccessUnsupported.
func (g *GPU) EnablePeer(other *GPU) error {
	const what = "enable peer access"
	if err := g.enterPeer(what, other); err != nil {
		return err
	}
	defer g.leave()
	defer other.leave()
	switch can, err := g.CanAccessPeer(other); {
	case err != nil:
		return err
	case !can && !sameDriver(g.driver, other.driver):
		return &refusal{cu.ErrorPeerAccessUnsupported, fmt.Sprintf("%s of %s to %s: they are of different drivers", what, g.label, other.label)}
	case !can:
		return &refusal{cu.ErrorPeerAccessUnsupported, fmt.Sprintf("%s of %s to %s: the machine cannot (cuDeviceCanAccessPeer is 0): copy between them", what, g.label, other.label)}
	case g.device == other.device:
		return nil
	}
	if err := g.driver.CtxEnablePeerAccess(g.ctx, other.ctx, 0); err != nil && !errors.Is(err, cu.ErrorPeerAccessAlreadyEnabled) {
		return fmt.Errorf("%s of %s to %s: %w", what, g.label, other.label, err)
	}
	t := g.shared
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers[[2]cu.Context{g.ctx, other.ctx}] = true
	return nil
}

// enterPeer enters two GPUs.
func (g *GPU) enterPeer(what string, other *GPU) error {
	if err := g.enter(what); err != nil {
		return err
	}
	if err := other.enter(what); err != nil {
		g.leave()
		return err
	}
	return nil
}

// usable is the region's address in kernels of a stream, or why they cannot use it
// although copies can.
func (r *region) usable(q *queue) (cu.DevicePtr, error) {
	a, g := r.a, q.g
	switch {
	case r.bytes == 0:
		return r.dev, nil
	case a.kind == managedMemory && !g.caps.concurrentManaged:
		return r.dev, a.attachedTo(q)
	case a.g == g || a.kind == managedMemory || a.g.device == g.device:
		return r.dev, nil
	case a.kind.onHost():
		return r.addressOn(g)
	}
	t := g.shared
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.peers[[2]cu.Context{g.ctx, a.g.ctx}] {
		return 0, &refusal{cu.ErrorPeerAccessNotEnabled, fmt.Sprintf("%v is memory of another GPU: EnablePeer of %s to it first, or Copy", r.String(), g.label)}
	}
	return r.dev, nil
}
