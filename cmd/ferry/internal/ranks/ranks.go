package ranks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
)

// Most is how many ranks a job has at most.
const Most = 1024

// Job is a program that runs as several ranks.
type Job struct {
	Args           []string // the program and its arguments
	Env            []string // more variables of the environment
	Size           int
	Stdout, Stderr io.Writer
}

// Failure is how the rank ended that failed first.
type Failure struct {
	Rank   int
	Ended  string // such as "exit status 1"
	Status int    // as a shell says it
}

// foreign are variables by which other launchers say which rank a process is, and those that would
// replace what a job sets. The ranks of a job do not get them.
var foreign = []string{
	"TORCHELASTIC_RUN_ID", "FERRY_NCCL_PORT", "JOB_COMPLETION_INDEX",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID",
}

// end is how a rank ended.
type end struct {
	rank  int
	state *os.ProcessState
	err   error
}

// Run runs all ranks until they have ended. If one fails, it ends the others, by SIGTERM and then by
// SIGKILL, and returns how that one ended. The error is that of a context that has ended, of a
// program that did not begin, or of an output.
func (j *Job) Run(ctx context.Context) (*Failure, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &outputs{stdout: j.Stdout, stderr: j.Stderr, failed: func() { stop(&child.Stop{Signal: syscall.SIGTERM}) }}
	ends, token := make(chan end, j.Size), rand.Text()
	for rank := range j.Size {
		env := append(slices.Clone(j.Env), j.variables(rank, port, token)...)
		go func() {
			state, err := j.rank(ctx, rank, env, out)
			ends <- end{rank, state, err}
		}()
	}
	var failure *Failure
	for range j.Size {
		e := <-ends
		if failure != nil || err != nil {
			continue // it was told to end
		}
		if e.err != nil {
			err = e.err
		} else if status := child.Status(e.state); status != 0 {
			failure = &Failure{e.rank, e.state.String(), status}
		} else {
			continue
		}
		stop(&child.Stop{Signal: syscall.SIGTERM})
	}
	if e := out.err(); e != nil {
		return failure, e
	}
	return failure, err
}

// variables returns the variables of a rank.
func (j *Job) variables(rank, port int, token string) []string {
	n, r := strconv.Itoa(j.Size), strconv.Itoa(rank)
	return []string{"RANK=" + r, "WORLD_SIZE=" + n, "LOCAL_RANK=" + r, "LOCAL_WORLD_SIZE=" + n,
		"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.Itoa(port), "FERRY_NCCL_TOKEN=" + token}
}

// rank runs one rank until it has ended and its output is written.
func (j *Job) rank(ctx context.Context, rank int, env []string, out *outputs) (*os.ProcessState, error) {
	p := &child.Program{Args: j.Args, Env: env, Unset: foreign, Background: true}
	stdout, err := out.open(rank, out.stdout)
	if err != nil {
		return nil, err
	}
	stderr, err := out.open(rank, out.stderr)
	if err != nil {
		stdout.close()
		return nil, err
	}
	p.Stdout, p.Stderr = stdout.in, stderr.in
	state, err := p.Run(ctx)
	var wait sync.WaitGroup
	wait.Go(stdout.close)
	wait.Go(stderr.close)
	wait.Wait()
	return state, err
}

// freePort returns a port of the loopback interface that is free, and so is the next, where ranks
// meet by default.
func freePort() (int, error) {
	var last error
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := first.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		first.Close()
		if err == nil {
			next.Close()
			return port, nil
		}
		last = err
	}
	return 0, errors.Join(errors.New("find two free ports, one after the other"), last)
}
