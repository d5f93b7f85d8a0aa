package grid

// callKinds are calls with little work. The size is the number of calls.
var callKinds = []kind{
	{"launches, then a wait", "launches", powers(1, 256), launches},
	{"event records", "records", powers(1, 256), records},
	{"event record and wait", "records", powers(1, 1), recordAndWait},
	{"graph of launches", "launches", powers(1, 256), graphLaunch},
}

func launches(r *rig, n int) (trial, error) {
	out, err := r.device(16)
	params := pack(out, float32(0.5), uint32(1))
	return trial{step: func() error {
		for range n {
			if err := r.launch("arithmetic", 1, params); err != nil {
				return err
			}
		}
		return r.sync()
	}}, err
}

// records measures event records without waiting for them.
func records(r *rig, n int) (trial, error) {
	return trial{
		step: func() error {
			for range n {
				if err := r.d.EventRecord(r.ctx, r.event, r.stream); err != nil {
					return err
				}
			}
			return nil
		},
		after: r.sync,
	}, nil
}

func recordAndWait(r *rig, _ int) (trial, error) {
	return trial{step: func() error {
		if err := r.d.EventRecord(r.ctx, r.event, r.stream); err != nil {
			return err
		}
		return r.d.EventSynchronize(r.ctx, r.event)
	}}, nil
}

// graphLaunch replays captured launches.
func graphLaunch(r *rig, n int) (trial, error) {
	out, err := r.device(16)
	if err != nil {
		return trial{}, err
	}
	params := pack(out, float32(0.5), uint32(1))
	return r.graph(func() error {
		return repeat(n, func() error { return r.launch("arithmetic", 1, params) })
	})
}
