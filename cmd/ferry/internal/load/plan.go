package load

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
)

// Predict plans a load: it reads headers alone.
func Predict(_ context.Context, g *ferry.GPU, j Job) (r *Report, err error) {
	c, err := checkpoint.Open(j.Files...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p, err := c.Plan(g, j.options())
	if err != nil {
		return nil, err
	}
	r = &Report{Schema: Schema, Device: g.String(), Tensors: p.Tensors, Bytes: p.ReadBytes, Memory: p.DeviceBytes}
	r.describe(c, j)
	r.Plan = &Plan{
		Reads: p.Reads, Extra: p.ExtraBytes, Free: int64(p.FreeBytes), Fits: p.Fits, Profile: p.Profile, Ns: p.Predicted.Nanoseconds(),
	}
	return r, nil
}
