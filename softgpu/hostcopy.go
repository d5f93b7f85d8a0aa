package softgpu

// HostCopy tells that threads of the host have copied n bytes from ordinary to
// page-locked memory, or back: the clock moves by what that takes on the machine.
func (d *Driver) HostCopy(n uintptr, threads int, back bool) {
	k := &d.prof.Staging
	one, most := k.Fill.Value, k.FillMost.Value
	if back {
		one, most = k.Drain.Value, k.DrainMost.Value
	}
	rate := min(float64(max(1, threads))*one, most)
	if rate <= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host += float64(n) / rate * 1e9
}
