package softgpu

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// LaunchKernelEx queues a kernel with attributes of the launch.
func (d *Driver) LaunchKernelEx(h cu.Context, config *cu.LaunchConfig, fh cu.Function, params []byte) error {
	if err := d.since("cuLaunchKernelEx", 11060); err != nil {
		return err
	}
	if config == nil {
		return refuse(cu.ErrorInvalidValue, "launch a kernel", "the configuration is nil")
	}
	return d.launchKernel(h, fh, config, params)
}

// apply applies the attributes of a launch. A programmatic launch begins when the work
// before it has ended, which is allowed. Preferences change nothing.
func (l *launch) apply(attrs []cu.LaunchAttribute) error {
	what := "launch " + l.fn.name
	for i := range attrs {
		a := &attrs[i]
		switch a.ID {
		case cu.LaunchAttributeIgnore, cu.LaunchAttributeProgrammaticStreamSerialization, cu.LaunchAttributePriority,
			cu.LaunchAttributeClusterSchedulingPolicyPreference, cu.LaunchAttributePreferredSharedMemoryCarveout,
			cu.LaunchAttributeAccessPolicyWindow:
		case cu.LaunchAttributeCooperative:
			if a.Value[0] == 0 {
				continue
			}
			if err := l.cooperate(); err != nil {
				return err
			}
		case cu.LaunchAttributeClusterDimension:
			if err := l.checkCluster(cu.Dim3{X: a.Value[0], Y: a.Value[1], Z: a.Value[2]}, what); err != nil {
				return err
			}
		default:
			return refuse(cu.ErrorNotSupported, what, "the software GPU does not know launch attribute %d", a.ID)
		}
	}
	return nil
}

// checkCluster checks the size of clusters. Only clusters of one block run.
func (l *launch) checkCluster(d cu.Dim3, what string) error {
	switch {
	case d.X == 0 || d.Y == 0 || d.Z == 0:
		return refuse(cu.ErrorInvalidClusterSize, what, "a cluster of %dx%dx%d blocks", d.X, d.Y, d.Z)
	case l.grid.X%d.X != 0 || l.grid.Y%d.Y != 0 || l.grid.Z%d.Z != 0:
		return refuse(cu.ErrorInvalidClusterSize, what, "a grid of %dx%dx%d blocks is not a multiple of a cluster of %dx%dx%d",
			l.grid.X, l.grid.Y, l.grid.Z, d.X, d.Y, d.Z)
	case d.Count() > 1:
		return noClusters(what)
	}
	return nil
}

func noClusters(what string) error {
	return refuse(cu.ErrorNotSupported, what, "the software GPU does not run clusters of blocks")
}

// cooperate makes a launch cooperative: all its blocks run at once. As on hardware they
// must fit on the device.
func (l *launch) cooperate() error {
	dev, what := l.fn.mod.ctx.dev, "launch "+l.fn.name
	if dev.attr(cu.DeviceAttributeCooperativeLaunch) == 0 {
		return dev.lacks(what+" cooperatively", cu.DeviceAttributeCooperativeLaunch)
	}
	limits := dev.limits()
	// The estimate of the registers must not refuse a launch of one block.
	per := max(1, limits.ActiveBlocks(l.fn.needs(), int(l.block.Count()), int(l.shared)))
	if most := per * limits.Processors; l.grid.Count() > uint64(most) {
		return refuse(cu.ErrorCooperativeLaunchTooLarge, what, "a cooperative grid of %d blocks: at most %d run at once, %d on each of %d multiprocessors (estimated for %d registers a thread)",
			l.grid.Count(), most, per, limits.Processors, l.fn.registers())
	}
	l.cooperative = true
	return nil
}

// The workspace of a cooperative launch has its size in the first word, and the counter
// of the grid's barrier in the second. Its address is one that no allocation has: the
// last page below the first device's memory.
const (
	workspaceBytes = 64
	workspaceBase  = deviceBase - pageSize
)

// newWorkspace returns the workspace of one launch, with a counter of 0.
func newWorkspace() *simt.Segment {
	s := &simt.Segment{Base: workspaceBase, Data: make([]byte, workspaceBytes), Counter: kernelcost.CountDevice}
	binary.LittleEndian.PutUint32(s.Data, workspaceBytes)
	return s
}

// workspaceAddress returns the address of the workspace, 0 if there is none.
func (v *view) workspaceAddress() uint64 {
	if v.workspace == nil {
		return 0
	}
	return v.workspace.Base
}
