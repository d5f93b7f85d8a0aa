package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
	"github.com/ferrygpu/ferry/internal/measure/info"
)

// infoOptions are the flags of "ferry info".
type infoOptions struct {
	device, kernel string
	json           bool
}

// newInfo returns the command "ferry info".
func newInfo(s *session) *cobra.Command {
	o := &infoOptions{}
	c := &cobra.Command{
		Use:   "info [--kernel FILE.ptx] [--device D] [--json]",
		Short: "show what a device is and can do",
		Long: `Shows a device: driver, memory, copy engines, what host memory it can use, the
priorities of its streams, its link to the host and its peers. Of hardware it
also shows what the program runs in, as ferry doctor finds it: MIG, confidential
computing, IOMMU, limits of memory, container, WSL.

With --kernel it shows the kernels of a file instead: parameters, registers,
memory, the suggested block size and the occupancy. On the software GPU some of
these are estimates, which are marked.
`,
		Example: "  ferry info\n  ferry info --device soft:gh200 --json\n  ferry info --kernel kernels/kernels.ptx",
		Args:    noWords,
		RunE:    func(c *cobra.Command, _ []string) error { return showInfo(c.Context(), s, o) },
	}
	c.Flags().StringVar(&o.kernel, "kernel", "", "the module `FILE.ptx` for the device")
	jsonFlag(c, &o.json, "schema ferry.info/1, or ferry.kernel/1 with --kernel")
	deviceFlag(c, &o.device)
	return c
}

// showInfo implements "ferry info".
func showInfo(ctx context.Context, s *session, o *infoOptions) error {
	g, err := s.open(ctx, o.device)
	if err != nil {
		return err
	}
	r, err := describe(ctx, g, o.kernel)
	if err != nil {
		return firstError(err, g.Close())
	}
	return firstError(s.writeReport(r, o.json), g.Close())
}

// describe describes a device or, if path is not empty, the kernels of a file on it.
func describe(ctx context.Context, g *ferry.GPU, path string) (report, error) {
	if path != "" {
		return info.AboutKernels(g, path)
	}
	r, err := info.About(g)
	if err != nil || g.Emulated() {
		return r, err
	}
	found, err := doctor.Here(ctx, "cuda:"+r.PCIBus, version())
	if err != nil {
		return nil, err
	}
	r.Machine = facts(found)
	return r, nil
}

// facts returns what the doctor has found around a device.
func facts(r *doctor.Report) (all []info.Fact) {
	for _, c := range r.Around() {
		f := info.Fact{Name: c.Name, State: string(c.State), Found: c.Found}
		if c.State != doctor.OK {
			f.Cost = c.Cost
		}
		all = append(all, f)
	}
	return all
}
