package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// TestHostileModules loads texts and fatbins that are made to cost much.
func TestHostileModules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	r := newRig(t, Options{})
	images := hostile.Fatbins()
	for name, text := range hostile.PTX() {
		images[name] = []byte(text)
	}
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			var m cu.Module
			var err error
			hostile.Check(t, "load", func() { m, err = r.ModuleLoadData(r.ctx, image) })
			if err == nil {
				err = r.ModuleUnload(r.ctx, m)
			}
			if err != nil && len(err.Error()) > 4<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}
