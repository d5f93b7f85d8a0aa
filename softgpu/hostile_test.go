package softgpu

import (
	"maps"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestHostileModules loads texts and fatbins that are made to cost much: a third of them, and all with
// [sample.Full].
func TestHostileModules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := newRig(t, Options{})
	images := hostile.Fatbins()
	for name, text := range hostile.PTX() {
		images[name] = []byte(text)
	}
	for _, name := range sample.Of(t, slices.Sorted(maps.Keys(images)), (len(images)+2)/3) {
		image := images[name]
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
