package nccl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/library"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
	"github.com/ferrygpu/ferry/nccl/internal/soft"
)

// TokenVariable names the environment variable with the secret that all ranks share. They prove that
// they know it, and never send it. Without it ranks meet on one machine only.
const TokenVariable = "FERRY_NCCL_TOKEN"

// LibraryVariable names the environment variable with the absolute path of libnccl.
const LibraryVariable = library.Variable

// DefaultTimeout is how long ranks wait for each other if Options do not say.
const DefaultTimeout = rendezvous.DefaultTimeout

// World says which rank of how many a process is.
type World = rendezvous.World

// ErrNoLauncher is the error of [Environment] in a process that no launcher has started.
var ErrNoLauncher = rendezvous.ErrNoLauncher

// Errors with data.
type (
	// LostError says that the process of another rank has ended.
	LostError = rendezvous.LostError
	// MissingError says which ranks have not come in time.
	MissingError = rendezvous.MissingError
	// ResultError is a result of NCCL that is no success.
	ResultError = backend.ResultError
	// NotFoundError says that no NCCL was found, and what was tried.
	NotFoundError = library.NotFoundError
)

// Options are settings of a communicator. The zero value is the default.
type Options struct {
	// World says who this rank is. Nil takes it from the environment: see [Environment].
	World *World
	// Name is for messages. The default is "world".
	Name string
	// Timeout bounds every wait for ranks that do not come: in Open, Split and Close, in a call with
	// Verify, and on the software GPU in every call. 0 means DefaultTimeout, and less than 0 no bound.
	Timeout time.Duration
	// Verify compares the calls of all ranks before they are queued. So a rank that calls with another
	// count, type, operation, root or order, or not at all, gets an error where NCCL would hang.
	// It costs a message of each rank a call. All ranks set it or none. FERRY_NCCL_VERIFY=1 sets it, too,
	// and so does FERRY_CHECK with "memory", as under ferry check. The software GPU always compares.
	Verify bool
	// Log gets a line for each kind of connection that rank 0 refuses, such as one with a wrong
	// token. Nil drops them.
	Log func(line string)
}

// Environment returns which rank this process is, by the variables of the launcher that has started
// it: torchrun, ferry ranks, Open MPI, MPICH, Intel MPI, Slurm, or Kubernetes with an indexed job.
// The error names a variable that is missing, and says what to set. docs/many-gpus.md has a
// table of the variables.
func Environment() (World, error) { return rendezvous.FromEnvironment(secureenv.Get) }

// OpenGPU opens the GPU of a rank: the one with the number w.LocalRank, or the only one that the
// process sees, as under srun --gpus-per-task=1. FERRY_DEVICE goes first if it names a software
// GPU or one GPU. Without an NVIDIA GPU it opens the software GPU, as [ferry.Open] does.
func OpenGPU(w World) (*ferry.GPU, error) {
	if name := secureenv.Get("FERRY_DEVICE"); name != "" && name != "cuda" {
		return ferry.Open(name)
	}
	all, err := ferry.GPUs()
	if err != nil {
		return nil, err
	}
	count := 0
	for _, g := range all {
		if !g.Emulated {
			count++
		}
	}
	switch {
	case count == 0:
		return ferry.Open("")
	case count == 1:
		return ferry.Open("cuda:0")
	case w.LocalRank >= count:
		return nil, refusal.Invalid("open the GPU of rank %d: its number on this machine is %d, and there are %d GPUs: start at most that many ranks here", w.Rank, w.LocalRank, count)
	}
	return ferry.Open(fmt.Sprintf("cuda:%d", w.LocalRank))
}

// Open makes the communicator of this process's rank on a GPU, and returns when all ranks have come
// (ncclCommInitRankScalable). All ranks call it. They meet over TCP at the port after MASTER_PORT, or
// at FERRY_NCCL_PORT. Each rank has a GPU of its own.
//
// o may be nil. If ranks do not come within its timeout, or before ctx ends, the error wraps a
// [*MissingError], which names them. Without NCCL the error wraps a [*NotFoundError].
func Open(ctx context.Context, g *ferry.GPU, o *Options) (*Comm, error) {
	const what = "open a communicator"
	opt := o.filled()
	w := opt.World
	if w == nil {
		env, err := Environment()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		w = &env
	}
	lib, err := libraryFor(g, what)
	if err != nil {
		return nil, err
	}
	ctx, stop := opt.limit(ctx)
	defer stop()
	session, err := rendezvous.Join(ctx, *w, &rendezvous.Options{Token: secureenv.Get(TokenVariable), Timeout: opt.Timeout, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return open(ctx, g, lib, session, opt)
}

// OpenAll makes a communicator of GPUs of this process, one rank for each (ncclCommInitAll). One
// goroutine can use all of them, with a [Group] for calls that wait for each other, or each its own.
// [CloseAll] closes them. Options.World is not used.
func OpenAll(ctx context.Context, gpus []*ferry.GPU, o *Options) ([]*Comm, error) {
	const what = "open a communicator of all GPUs"
	opt := o.filled()
	if len(gpus) == 0 {
		return nil, refusal.Invalid("%s: no GPUs given (nil)", what)
	}
	ctx, stop := opt.limit(ctx)
	defer stop()
	all, errs := make([]*Comm, len(gpus)), make([]error, len(gpus))
	sessions := rendezvous.Local(len(gpus))
	var done sync.WaitGroup
	for i, g := range gpus {
		done.Go(func() {
			lib, err := libraryFor(g, what)
			if err == nil {
				all[i], err = open(ctx, g, lib, sessions[i], opt)
			} else {
				sessions[i].Close()
			}
			errs[i] = err
		})
	}
	done.Wait()
	if err := refusal.Join(errs...); err != nil {
		for _, c := range all {
			if c != nil {
				err = refusal.Join(err, c.Abort())
			}
		}
		return nil, err
	}
	return all, nil
}

// filled returns the options with defaults.
func (o *Options) filled() Options {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Name = cmp.Or(opt.Name, "world")
	opt.Timeout = cmp.Or(opt.Timeout, DefaultTimeout)
	checked, _ := checks.On(checks.Memory) // package ferry reports an error of the variable
	opt.Verify = opt.Verify || checked || secureenv.Get("FERRY_NCCL_VERIFY") == "1"
	return opt
}

// limit returns a context that ends after the timeout, too.
func (o *Options) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.Timeout)
}

// software makes communicators of software GPUs.
var software backend.Library = soft.Library{}

// libraryFor returns what moves the data of a GPU.
func libraryFor(g *ferry.GPU, what string) (backend.Library, error) {
	switch {
	case g == nil || g.Driver() == nil:
		return nil, refusal.Invalid("%s: no GPU given (nil), or a closed one", what)
	case g.Emulated():
		return software, nil
	}
	l, err := library.Find()
	if err != nil {
		return nil, fmt.Errorf("%s on %v: %w", what, g, err)
	}
	return l, nil
}

var commNumber atomic.Uint64

// open makes a communicator on a session, which it closes if that fails.
func open(ctx context.Context, g *ferry.GPU, lib backend.Library, session backend.Session, o Options) (*Comm, error) {
	config := &backend.Config{Driver: g.Driver(), Context: g.CUContext(), Device: g.CUDevice(), Session: session, Name: o.Name, Timeout: max(o.Timeout, 0), Verify: o.Verify}
	b, err := openBackend(ctx, lib, config)
	if err != nil {
		return nil, refusal.Join(fmt.Errorf("open rank %d of %d of %q on %v with %s: %w", session.Rank(), session.Size(), o.Name, g, lib.Name(), err), session.Close())
	}
	c, err := newComm(g, lib, b, session, o)
	if err != nil {
		return nil, refusal.Join(err, b.Abort(), session.Close())
	}
	return c, nil
}

// openBackend makes a communicator of ranks that agree in what they verify.
func openBackend(ctx context.Context, lib backend.Library, config *backend.Config) (backend.Comm, error) {
	mine := []byte("compares no calls (Options.Verify, FERRY_NCCL_VERIFY, FERRY_CHECK)")
	if config.Verify {
		mine = []byte("compares calls")
	}
	all, err := config.Session.Gather(ctx, "options", mine)
	if err != nil {
		return nil, err
	}
	for r, theirs := range all {
		if string(theirs) != string(mine) {
			return nil, refusal.Invalid("rank %d %s, and rank %d %s: all ranks do or none", config.Session.Rank(), mine, r, printable.Line(string(theirs)))
		}
	}
	return lib.Open(ctx, config)
}

// errNoComm returns the error of a call without a communicator.
func errNoComm(what string) error {
	return refusal.Invalid("%s: no communicator given (nil)", what)
}

// ErrClosed is the error of a communicator that was closed or aborted.
var ErrClosed = errors.New("communicator closed")
