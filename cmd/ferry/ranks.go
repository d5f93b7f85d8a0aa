package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/ranks"
)

// newRanks returns the command "ferry ranks".
func newRanks(s *session) *cobra.Command {
	var size int
	var device string
	c := &cobra.Command{
		Use:   "ranks -n N [--device D] -- PROGRAM ARG...",
		Short: "start a program as N ranks on this machine",
		Long: `Starts N processes of a program, the ranks of one job, for programs that use
package nccl, or any other library that reads the variables of torchrun. Each
rank gets RANK and LOCAL_RANK, 0 to N-1, WORLD_SIZE and LOCAL_WORLD_SIZE, N,
MASTER_ADDR=127.0.0.1, MASTER_PORT, which is free as is the next one, and a
fresh FERRY_NCCL_TOKEN. Other variables stay, such as NCCL_NVLS_ENABLE, but for
those by which Open MPI, MPICH, Slurm and Kubernetes name ranks.

Each line that a rank writes has [RANK] before it, on the same of the two
outputs. Lines stay whole. A rank has no standard input.

If a rank fails, the others get SIGTERM, and after 5 seconds SIGKILL. The exit
status is that of the rank that failed first, and standard error names it.
Signals are handed on to all ranks.

For several machines use torchrun --no-python, mpirun or srun.
`,
		Example:     "  ferry ranks -n 2 -- ./allreduce\n  ferry ranks -n 8 --device soft -- go test ./...\n  NCCL_NVLS_ENABLE=0 ferry ranks -n 2 -- ./program",
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{keepsNothing: "yes"},
		RunE: func(c *cobra.Command, words []string) error {
			dash := c.ArgsLenAtDash()
			switch {
			case dash < 0 && len(words) > 0, dash > 0:
				return dashesMissing(c, words)
			case len(words) == 0:
				return badUsage("no program after --")
			case size == 0 && !c.Flags().Changed("number"):
				return badUsage("-n is required: the number of ranks")
			case size < 1 || size > ranks.Most:
				return badUsage("-n %d: must be 1 to %d", size, ranks.Most)
			}
			return s.startRanks(c.Context(), size, device, words)
		},
	}
	c.Flags().IntVarP(&size, "number", "n", 0, "start `N` ranks")
	programDeviceFlag(c, &device)
	return c
}

// startRanks runs a program as ranks.
func (s *session) startRanks(ctx context.Context, size int, device string, program []string) error {
	env, err := s.deviceEnvironment(ctx, device, program[0])
	if err != nil {
		return err
	}
	job := &ranks.Job{Args: program, Env: env, Size: size, Stdout: s.stdout, Stderr: s.stderr}
	failure, err := job.Run(ctx)
	if failure != nil && err == nil {
		err = &childError{fmt.Sprintf("rank %d failed first: %s", failure.Rank, program[0]), failure.Ended, failure.Status}
	}
	return err
}
