package library

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// idBytes is the size of an ncclUniqueId.
const idBytes = 128

// comm is a communicator of NCCL.
type comm struct {
	lib        *Library
	config     backend.Config
	handle     uintptr
	rank, size int

	mu     sync.Mutex // guards what follows
	inside int        // calls with the handle
	gone   bool       // the handle is freed, or about to be
}

// errGone is the error of a call with a communicator that was freed.
var errGone = errors.New("the communicator was aborted or closed")

// enter counts a call with the handle. leave ends it.
func (c *comm) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errGone
	}
	c.inside++
	return nil
}

func (c *comm) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
}

// take takes the handle for its end. It returns false if another call has done so.
func (c *comm) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := !c.gone
	c.gone = true
	return took
}

// do makes a call with the handle, if it is not freed.
func (c *comm) do(f function, args ...uintptr) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	return c.lib.do(c.handle, f, args...)
}

// introduction is what a rank tells the others before they make a communicator.
type introduction struct {
	version uint32
	gpu     string // names the GPU among all machines
	nvls    string // the value of nvlsVariable
	id      []byte // of rank 0 alone
}

// nvlsVariable switches multicast over NVLink off in NCCL. Ranks that differ in it do not work together.
const nvlsVariable = "NCCL_NVLS_ENABLE"

func (i *introduction) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, i.version)
	for _, text := range []string{i.gpu, i.nvls} {
		text = text[:min(len(text), 200)]
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
		b = append(b, text...)
	}
	return append(b, i.id...)
}

func readIntroduction(b []byte) (i introduction, err error) {
	short := errors.New("its introduction is cut off")
	if len(b) < 4 {
		return i, short
	}
	i.version, b = binary.LittleEndian.Uint32(b), b[4:]
	for _, text := range []*string{&i.gpu, &i.nvls} {
		if len(b) < 2 || len(b) < 2+int(binary.LittleEndian.Uint16(b)) {
			return i, short
		}
		n := 2 + int(binary.LittleEndian.Uint16(b))
		*text, b = string(b[2:n]), b[n:]
	}
	i.id = b
	return i, nil
}

// Open makes the communicator of a rank.
func (l *Library) Open(ctx context.Context, c *backend.Config) (backend.Comm, error) {
	rank, size := c.Session.Rank(), c.Session.Size()
	me := introduction{version: uint32(l.version), gpu: gpuName(c), nvls: os.Getenv(nvlsVariable)}
	if rank == 0 {
		var err error
		if me.id, err = l.uniqueID(); err != nil {
			return nil, err
		}
	}
	all, err := c.Session.Gather(ctx, "nccl", me.bytes())
	if err != nil {
		return nil, err
	}
	id, err := agree(all, rank)
	if err != nil {
		return nil, err
	}
	return l.open(ctx, c, func(f *dl.Frame, handle *uintptr, config []byte) error {
		return l.do(0, commInitRankScalable, f.Word(handle), uintptr(size), uintptr(rank), 1, f.Bytes(id), f.Bytes(config))
	})
}

// agree checks what the ranks tell, and returns the id.
func agree(all [][]byte, rank int) ([]byte, error) {
	seen := map[string]int{}
	var first introduction
	for r, b := range all {
		i, err := readIntroduction(b)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		if r == 0 {
			first = i
		}
		if i.version != first.version {
			return nil, fmt.Errorf("rank 0 has NCCL %s, and rank %d has %s: all ranks need the same version", versionText(int(first.version)), r, versionText(int(i.version)))
		}
		if i.nvls != first.nvls {
			return nil, fmt.Errorf("rank 0 has %s=%s, and rank %d has %s: set the same on all ranks", nvlsVariable, printable.Value(first.nvls), r, printable.Value(i.nvls))
		}
		if other, ok := seen[i.gpu]; ok && i.gpu != "" {
			return nil, fmt.Errorf("ranks %d and %d have the same GPU, %s: NCCL needs a GPU for each rank; open GPU number LOCAL_RANK", other, r, i.gpu)
		}
		seen[i.gpu] = r
	}
	if len(first.id) != idBytes {
		return nil, fmt.Errorf("rank 0 gave an id of %d bytes, want %d", len(first.id), idBytes)
	}
	return first.id, nil
}

// gpuName names a GPU among all machines.
func gpuName(c *backend.Config) string {
	host, _ := os.Hostname()
	if id, err := c.Driver.DeviceGetUuid(c.Device); err == nil {
		return fmt.Sprintf("GPU-%x on %s", id, host)
	}
	return fmt.Sprintf("GPU %d on %s", c.Device, host)
}

// uniqueID makes an id.
func (l *Library) uniqueID() ([]byte, error) {
	var f dl.Frame
	defer f.Release()
	id := make([]byte, idBytes)
	return id, l.do(0, getUniqueID, f.Bytes(id))
}

// open makes a communicator by a function of NCCL, which waits for the other ranks.
func (l *Library) open(ctx context.Context, c *backend.Config, make func(f *dl.Frame, handle *uintptr, config []byte) error) (backend.Comm, error) {
	ctx, stop := untilLost(ctx, c.Session)
	defer stop()
	x := &comm{lib: l, config: *c, rank: c.Session.Rank(), size: c.Session.Size()}
	handle, err := onThread(ctx, c, func() (handle uintptr, err error) {
		var f dl.Frame
		defer f.Release()
		err = make(&f, &handle, configBytes())
		return handle, err
	}, func(handle uintptr, err error) {
		if err == nil && handle != 0 { // it came too late
			withContext(c, func() error { return l.do(handle, commAbort, handle) })
		}
	})
	if err != nil {
		return nil, err
	}
	x.handle = handle
	return x, nil
}

// untilLost returns a context that ends when a rank is lost, too.
func untilLost(ctx context.Context, s backend.Session) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.Lost():
			cancel(s.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// configBytes returns an ncclConfig_t as version 2.23 has it. Later versions know its size and take
// their defaults for what it lacks.
func configBytes() []byte {
	const (
		size  = 48
		magic = 0xcafebeef
		unset = math.MinInt32
	)
	b := binary.LittleEndian.AppendUint64(nil, size)
	for _, word := range []int64{magic, Lowest, 1 /* blocking */, unset, unset, unset} {
		b = binary.LittleEndian.AppendUint32(b, uint32(word))
	}
	b = binary.LittleEndian.AppendUint64(b, 0) // the name of the network
	b = binary.LittleEndian.AppendUint32(b, uint32(unset&math.MaxUint32))
	return append(b, 0, 0, 0, 0)
}

// Err returns the error of asynchronous work, and nil after the end.
func (c *comm) Err() error {
	if c.enter() != nil {
		return nil
	}
	defer c.leave()
	var f dl.Frame
	defer f.Release()
	state := make([]int32, 1)
	if err := c.lib.do(c.handle, commGetAsyncError, c.handle, dl.Array(&f, state)); err != nil {
		return err
	}
	return c.lib.result(c.handle, commGetAsyncError, uintptr(uint32(state[0])))
}

// Split makes a communicator of the ranks with the same color.
func (c *comm) Split(ctx context.Context, color, key int, session backend.Session, name string) (backend.Comm, error) {
	if color < 0 {
		_, err := onThread(ctx, &c.config, func() (uintptr, error) { return c.split(-1, key) }, func(uintptr, error) {})
		return nil, err
	}
	config := c.config
	config.Session, config.Name = session, name
	return c.lib.open(ctx, &config, func(f *dl.Frame, handle *uintptr, _ []byte) error {
		h, err := c.split(color, key)
		*handle = h
		return err
	})
}

func (c *comm) split(color, key int) (handle uintptr, err error) {
	var f dl.Frame
	defer f.Release()
	err = c.do(commSplit, c.handle, uintptr(uint32(int32(color))), uintptr(uint32(int32(key))), f.Word(&handle), 0)
	return handle, err
}

// PreMulSum makes an operation. NCCL reads the factor before it returns.
func (c *comm) PreMulSum(t backend.DataType, factor [8]byte) (backend.Op, error) {
	const hostImmediate = 1
	var f dl.Frame
	defer f.Release()
	op := make([]int32, 1)
	if err := c.do(redOpCreatePreMulSum, dl.Array(&f, op), f.Bytes(factor[:]), uintptr(t), hostImmediate, c.handle); err != nil {
		return backend.Op{}, err
	}
	return backend.Op{Code: backend.PreMulSum, Handle: op[0], Factor: factor}, nil
}

// DestroyOp frees an operation.
func (c *comm) DestroyOp(op backend.Op) error {
	return c.do(redOpDestroy, uintptr(uint32(op.Handle)), c.handle)
}

// Register prepares memory.
func (c *comm) Register(address uint64, bytes int) (handle uintptr, err error) {
	var f dl.Frame
	defer f.Release()
	err = withContext(&c.config, func() error {
		return c.do(commRegister, c.handle, uintptr(address), uintptr(bytes), f.Word(&handle))
	})
	return handle, err
}

// Deregister undoes Register.
func (c *comm) Deregister(handle uintptr) error {
	return withContext(&c.config, func() error { return c.do(commDeregister, c.handle, handle) })
}

// Close ends the communicator when the ranks have done what they queued. If ctx ends before, it
// aborts.
func (c *comm) Close(ctx context.Context) error {
	_, err := onThread(ctx, &c.config, func() (struct{}, error) {
		failed := c.do(commFinalize, c.handle)
		switch {
		case !c.take(): // ctx has ended, and an abort the wait
			return struct{}{}, failed
		case failed != nil:
			return struct{}{}, errors.Join(failed, c.lib.do(c.handle, commAbort, c.handle))
		}
		return struct{}{}, c.lib.do(c.handle, commDestroy, c.handle)
	}, func(struct{}, error) {})
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return errors.Join(fmt.Errorf("the other ranks have not come: %w", err), c.Abort())
	}
	return err
}

const (
	abortLimit = 30 * time.Second // bounds the wait for ncclCommAbort
	leaveLimit = time.Second      // bounds that for calls with the communicator, which an abort ends if they hang
)

// Abort ends the work of the communicator, and frees it. Calls in progress end first, unless they
// hang.
func (c *comm) Abort() error {
	if !c.take() {
		return nil
	}
	for began := time.Now(); c.busy() && time.Since(began) < leaveLimit; {
		time.Sleep(time.Millisecond)
	}
	ctx, stop := context.WithTimeoutCause(context.Background(), abortLimit, fmt.Errorf("ncclCommAbort has not returned for %v", abortLimit))
	defer stop()
	_, err := onThread(ctx, &c.config, func() (struct{}, error) {
		return struct{}{}, c.lib.do(c.handle, commAbort, c.handle)
	}, func(struct{}, error) {})
	return err
}

// busy reports whether calls are in progress.
func (c *comm) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inside > 0
}
