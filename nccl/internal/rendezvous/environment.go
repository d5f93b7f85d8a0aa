package rendezvous

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
)

// World says which rank of how many this process is, and where rank 0 listens.
type World struct {
	Rank, Size int
	LocalRank  int    // the number of this rank among those of its machine
	Addr       string // host:port of rank 0's rendezvous; "" for one rank, which needs none
	From       string // the launcher whose variables were used, such as "torchrun"
}

// ErrNoLauncher is the error of a process for which no launcher has set variables.
var ErrNoLauncher = errors.New("no launcher has said which rank this process is: set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as ferry ranks -n N -- PROGRAM and torchrun --no-python PROGRAM do")

// launcher is a program that starts ranks, and the variables by which it says so.
type launcher struct {
	name       string
	rank, size string
	local      []string // the local rank: the first that is set
	localSize  string
	address    string // how to set MASTER_ADDR
}

// Names of variables that have a meaning of their own here.
const (
	worldSize = "WORLD_SIZE"
	localRank = "LOCAL_RANK"
	runID     = "TORCHELASTIC_RUN_ID" // set by torchrun alone
	stepID    = "SLURM_STEP_ID"
)

// launchers are in the order in which they win: those that can run inside others come first.
var launchers = []launcher{
	{"torchrun", "RANK", worldSize, nil, "LOCAL_WORLD_SIZE", "to the machine of rank 0 on all ranks, as torchrun --master-addr does"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", []string{"OMPI_COMM_WORLD_LOCAL_RANK"}, "OMPI_COMM_WORLD_LOCAL_SIZE",
		"to the machine of rank 0 by mpirun -x MASTER_ADDR=HOST"},
	{"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", []string{"MPI_LOCALRANKID", "PMI_LOCAL_RANK"}, "MPI_LOCALNRANKS",
		"to the machine of rank 0 by mpirun -genv MASTER_ADDR HOST"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", []string{"SLURM_LOCALID"}, "",
		`before srun, by export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)`},
	{"Kubernetes", "JOB_COMPLETION_INDEX", worldSize, nil, "", "in the Job to the name of its pod 0, JOB-0.SERVICE"},
}

// FromEnvironment returns the world that a launcher describes in variables of the environment. The
// first launcher wins whose rank and size are both set: torchrun (RANK, WORLD_SIZE), Open MPI, MPICH
// or Intel MPI, Slurm, Kubernetes. The error of an environment that lacks something names the
// variable and says what to set. Variables that contradict each other are an error, too: some clouds
// set RANK and WORLD_SIZE to counts of machines. getenv is as [os.Getenv].
func FromEnvironment(getenv func(string) string) (World, error) {
	e := environment{get: func(name string) string { return strings.TrimSpace(getenv(name)) }}
	l, err := e.launcher()
	if err != nil {
		return World{}, err
	}
	w := World{From: l.name}
	if w.Rank, w.Size, err = e.rankOf(l); err != nil {
		return World{}, err
	}
	localSize, err := e.number(l.localSize, 0)
	if err != nil {
		return World{}, err
	}
	if err := e.address(l, &w, localSize); err != nil {
		return World{}, err
	}
	if err := e.localRank(l, &w); err != nil {
		return World{}, err
	}
	if err := e.contradiction(l, &w, localSize); err != nil {
		return World{}, err
	}
	return w, nil
}

// environment reads variables.
type environment struct{ get func(string) string }

// number returns the value of a variable, or -1 if it is not set or its name is "".
func (e environment) number(name string, least int) (int, error) {
	if name == "" || e.get(name) == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(e.get(name))
	if err != nil || n < least || n > maxSize {
		return 0, fmt.Errorf("%s is %s, want a number from %d to %d", name, printable.Value(e.get(name)), least, maxSize)
	}
	return n, nil
}

// launcher returns the launcher that wins.
func (e environment) launcher() (*launcher, error) {
	for i := range launchers {
		if l := &launchers[i]; e.has(l, l.rank) && e.has(l, l.size) {
			return l, nil
		}
	}
	for i := range launchers {
		switch l := &launchers[i]; {
		case e.has(l, l.rank):
			return nil, fmt.Errorf("%s is %s, but %s is not set: set it to the number of all ranks", l.rank, printable.Value(e.get(l.rank)), l.size)
		case e.has(l, l.size):
			return nil, fmt.Errorf("%s is %s, but %s is not set: set it to the number of this rank, from 0", l.size, printable.Value(e.get(l.size)), l.rank)
		}
	}
	if n, _ := e.number("SLURM_NTASKS", 0); n > 1 && e.get("SLURM_PROCID") != "" {
		return nil, fmt.Errorf("SLURM_NTASKS is %d, but srun has not started this process: start the program by srun", n)
	}
	return nil, ErrNoLauncher
}

// has reports whether a variable of a launcher is set. Those of Slurm count within a step alone: the
// process of a batch script and a shell of salloc have some of them, too.
func (e environment) has(l *launcher, name string) bool {
	return e.get(name) != "" && (l.name != "Slurm" || e.inStep())
}

// rankOf returns the rank and size that a launcher has set.
func (e environment) rankOf(l *launcher) (rank, size int, err error) {
	if rank, err = e.number(l.rank, 0); err != nil {
		return 0, 0, err
	}
	if size, err = e.number(l.size, 1); err != nil {
		return 0, 0, err
	}
	if rank >= size {
		return 0, 0, fmt.Errorf("%s is %d and %s is %d: a rank is less than the number of ranks; does %s count machines?", l.rank, rank, l.size, size, l.size)
	}
	return rank, size, nil
}

// address finds where rank 0 listens. If all ranks are on this machine, that is the loopback
// interface, whatever MASTER_ADDR says, so that no token is needed.
func (e environment) address(l *launcher, w *World, localSize int) error {
	if w.Size == 1 {
		return nil
	}
	host := strings.Trim(e.get("MASTER_ADDR"), "[]")
	switch {
	case localSize == w.Size:
		host = "127.0.0.1"
	case host == "":
		return fmt.Errorf("this is rank %d of %d (%s, %s), but MASTER_ADDR is not set: set it %s", w.Rank, w.Size, l.rank, l.size, l.address)
	}
	port, err := e.port()
	if err != nil {
		return err
	}
	w.Addr = net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// port returns FERRY_NCCL_PORT, or the port after MASTER_PORT, where torchrun's own store may be.
func (e environment) port() (int, error) {
	name, more := "FERRY_NCCL_PORT", 0
	if e.get(name) == "" {
		name, more = "MASTER_PORT", 1
	}
	if e.get(name) == "" {
		return 0, errors.New("MASTER_PORT is not set: set it or FERRY_NCCL_PORT to the same free port on all ranks")
	}
	n, err := strconv.Atoi(e.get(name))
	if err != nil || n < 1 || n+more > 65535 {
		return 0, fmt.Errorf("%s is %s, want a port from 1 to %d", name, printable.Value(e.get(name)), 65535-more)
	}
	return n + more, nil
}

// localRank finds the local rank. If nothing says it, it is the rank where rank 0 is on this
// machine, because then all are, and 0 elsewhere.
func (e environment) localRank(l *launcher, w *World) error {
	names := append(slices.Clone(l.local), localRank)
	for i := range launchers { // RANK and WORLD_SIZE can be copies of another launcher's
		if o := &launchers[i]; e.has(o, o.rank) && e.get(o.rank) == e.get(l.rank) && e.get(o.size) == e.get(l.size) {
			names = append(names, o.local...)
		}
	}
	for _, name := range names {
		n, err := e.number(name, 0)
		if err != nil {
			return err
		}
		if n >= 0 {
			w.LocalRank = n
			return nil
		}
	}
	if host, _, err := net.SplitHostPort(w.Addr); err == nil && isLoopback(host) {
		w.LocalRank = w.Rank
	}
	return nil
}

// contradiction returns an error if variables cannot all be true.
func (e environment) contradiction(l *launcher, w *World, localSize int) error {
	const count = "RANK and WORLD_SIZE seem to count machines, and must count processes"
	switch {
	case localSize >= 0 && w.LocalRank >= localSize:
		return fmt.Errorf("the local rank is %d and %s is %d: a local rank is less than the number of ranks of its machine", w.LocalRank, l.localSize, localSize)
	case localSize > w.Size:
		return fmt.Errorf("%s is %d and %s is %d: %s", l.localSize, localSize, l.size, w.Size, count)
	case w.LocalRank > w.Rank:
		return fmt.Errorf("the local rank is %d and %s is %d: a rank is not less than its local rank; %s (CUDA_VISIBLE_DEVICES chooses a GPU)", w.LocalRank, l.rank, w.Rank, count)
	case l.rank != "RANK" || e.get(runID) != "":
		return nil
	}
	for i := range launchers {
		if err := e.outer(&launchers[i], w, count); err != nil {
			return err
		}
	}
	return nil
}

// outer returns an error if another launcher than that of RANK says that there are more ranks, or
// as many with this one at another place. Fewer are right: a launcher can start others.
func (e environment) outer(l *launcher, w *World, count string) error {
	if l.size == worldSize || !e.has(l, l.rank) || !e.has(l, l.size) {
		return nil
	}
	rank, size, err := e.rankOf(l)
	switch {
	case err != nil:
		return err
	case w.Size < size:
		return fmt.Errorf("WORLD_SIZE is %d and %s is %d: %s; unset both to use those of %s", w.Size, l.size, size, count, l.name)
	case w.Size == size && w.Rank != rank:
		return fmt.Errorf("RANK is %d and %s is %d, of %d ranks: was RANK set before the ranks were started? Unset RANK and WORLD_SIZE to use those of %s", w.Rank, l.rank, rank, size, l.name)
	}
	return nil
}

// firstSpecialStep is the least number of a step of Slurm that is no parallel one, such as the batch
// script and an interactive shell. There SLURM_NTASKS counts what srun would start.
const firstSpecialStep = 0xfffffff0

// inStep reports whether srun started this process as one of its tasks.
func (e environment) inStep() bool {
	n, err := strconv.ParseUint(e.get(stepID), 10, 64)
	return err == nil && n < firstSpecialStep
}
