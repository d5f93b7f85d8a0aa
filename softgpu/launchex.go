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
			if err := l.setCluster(cu.Dim3{X: a.Value[0], Y: a.Value[1], Z: a.Value[2]}, what); err != nil {
				return err
			}
		default:
			return refuse(cu.ErrorNotSupported, what, "the software GPU does not know launch attribute %d", a.ID)
		}
	}
	if r := l.required(); r.Count() > 0 && l.cluster.Count() == 0 {
		return l.setCluster(r, what)
	}
	return nil
}

// mostCluster is how many blocks a cluster has at most on every GPU that has clusters.
const mostCluster = 8

// setCluster sets the size of clusters.
func (l *launch) setCluster(d cu.Dim3, what string) error {
	dev := l.fn.mod.ctx.dev
	switch {
	case d.X == 0 || d.Y == 0 || d.Z == 0:
		return refuse(cu.ErrorInvalidClusterSize, what, "a cluster of %dx%dx%d blocks", d.X, d.Y, d.Z)
	case l.grid.X%d.X != 0 || l.grid.Y%d.Y != 0 || l.grid.Z%d.Z != 0:
		return refuse(cu.ErrorInvalidClusterSize, what, "a grid of %dx%dx%d blocks is not a multiple of a cluster of %dx%dx%d",
			l.grid.X, l.grid.Y, l.grid.Z, d.X, d.Y, d.Z)
	case l.required().Count() > 0 && d != l.required():
		r := l.required()
		return refuse(cu.ErrorInvalidClusterSize, what, "a cluster of %dx%dx%d blocks, the kernel demands %dx%dx%d", d.X, d.Y, d.Z, r.X, r.Y, r.Z)
	case d.Count() > mostCluster:
		return refuse(cu.ErrorInvalidClusterSize, what, "a cluster of %dx%dx%d blocks, at most %d are portable", d.X, d.Y, d.Z, mostCluster)
	case d.Count() > 1 && dev.attr(cu.DeviceAttributeClusterLaunch) == 0:
		return dev.lacks(what+" in clusters", cu.DeviceAttributeClusterLaunch)
	case d.Count() > 1 && dev.drv.races:
		return refuse(cu.ErrorNotSupported, what, "the check of races in kernels does not know clusters of blocks: run without FERRY_CHECK=races")
	}
	l.cluster = d
	return nil
}

// required returns the size of clusters that the kernel's text demands, 0 if it demands none.
func (l *launch) required() cu.Dim3 {
	c := l.fn.source().Cluster
	if c == [3]int{} {
		return cu.Dim3{}
	}
	return cu.Dim3{X: uint32(max(c[0], 1)), Y: uint32(max(c[1], 1)), Z: uint32(max(c[2], 1))}
}

func noClusters(what string) error {
	return refuse(cu.ErrorNotSupported, what, "clusters of blocks have no such attribute on the software GPU")
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
