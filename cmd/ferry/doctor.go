package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
)

// newDoctor returns the command "ferry doctor".
func newDoctor(s *session) *cobra.Command {
	var device string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [--device D] [--json]",
		Short: "find what makes copies slow or page-locking fail here",
		Long: `Examines the machine: the GPU's link now and at most, BAR, NUMA node, IOMMU,
ACS, errors, other processes, and limits of memory, huge pages, kernel and
driver. Each check is ok, WARN, FAIL or - (skipped). What is not ok has its
cost, where the figure comes from, and how to mend it. Nothing is changed, and
nothing runs on the GPU. Without a GPU only the system is examined, and that is
no fault.

The exit status is 3 if a check fails or warns of something that slows copies.
Warnings without such a cost do not count.
`,
		Example: "  ferry doctor\n  ferry doctor --device cuda:1 --json",
		Args:    noWords,
		RunE:    func(c *cobra.Command, _ []string) error { return examine(c.Context(), s, device, asJSON) },
	}
	jsonFlag(c, &asJSON, "schema ferry.doctor/1")
	deviceFlag(c, &device)
	return c
}

// examine implements "ferry doctor".
func examine(ctx context.Context, s *session, device string, asJSON bool) error {
	r, err := doctor.Here(ctx, device, version())
	if wrong, isDevice := errors.AsType[*doctor.DeviceError](err); isDevice {
		return badUsage("%v", wrong)
	} else if err != nil {
		return err
	}
	if err := s.writeReport(r, asJSON); err != nil || !r.Degraded {
		return err
	}
	return found("%s", r.Summary)
}
