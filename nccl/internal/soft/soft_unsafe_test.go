package soft

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
	"github.com/ferrygpu/ferry/softgpu"
)

// world is a software machine with a rank on each device.
type world struct {
	t     *testing.T
	d     *softgpu.Driver
	ranks []*rank
}

// rank is a rank with a stream and some memory.
type rank struct {
	w      *world
	comm   backend.Comm
	ctx    cu.Context
	stream cu.Stream
}

// newWorld opens a machine with n devices and a communicator of all.
func newWorld(t *testing.T, n int, schedule string, change func(*backend.Config)) *world {
	t.Helper()
	s, err := softgpu.ParseSchedule(schedule)
	if err != nil {
		t.Fatal(err)
	}
	d, err := softgpu.Open(softgpu.Options{Devices: n, Schedule: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, d: d}
	w.ok(d.Init(0))
	for i := range n {
		ctx, err := d.DevicePrimaryCtxRetain(cu.Device(i))
		w.ok(err)
		stream, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
		w.ok(err)
		w.ranks = append(w.ranks, &rank{w: w, ctx: ctx, stream: stream})
		t.Cleanup(func() { d.DevicePrimaryCtxReset(cu.Device(i)) })
	}
	w.openComms("dp", change)
	return w
}

// openComms opens a communicator of all ranks.
func (w *world) openComms(name string, change func(*backend.Config)) {
	w.t.Helper()
	places := rendezvous.Local(len(w.ranks))
	w.each(func(i int, r *rank) error {
		cfg := &backend.Config{Driver: r.w.d, Context: r.ctx, Device: cu.Device(i), Session: places[i], Name: name}
		if change != nil {
			change(cfg)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := Library{}.Open(ctx, cfg)
		r.comm = c
		return err
	})
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// each runs f for all ranks at once.
func (w *world) each(f func(i int, r *rank) error) {
	w.t.Helper()
	errs := make([]error, len(w.ranks))
	var all sync.WaitGroup
	for i, r := range w.ranks {
		all.Go(func() { errs[i] = f(i, r) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			w.t.Fatalf("rank %d: %v", i, err)
		}
	}
}

// alloc returns device memory that holds data.
func (r *rank) alloc(data []byte) cu.DevicePtr {
	r.w.t.Helper()
	p, err := r.w.d.MemAlloc(r.ctx, uintptr(max(1, len(data))))
	r.w.ok(err)
	r.w.ok(r.upload(p, data))
	return p
}

// read returns n bytes of device memory when the stream is done.
func (r *rank) read(p cu.DevicePtr, n int) []byte {
	r.w.t.Helper()
	r.w.ok(r.w.d.StreamSynchronize(r.ctx, r.stream))
	out, err := r.download(p, n)
	r.w.ok(err)
	return out
}

// upload writes device memory, and waits.
func (r *rank) upload(p cu.DevicePtr, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := r.w.d.MemcpyHtoD(r.ctx, p, unsafe.Pointer(&data[0]), uintptr(len(data))); err != nil {
		return err
	}
	return r.w.d.StreamSynchronize(r.ctx, cu.StreamLegacy) // small copies return before the data has arrived
}

// download reads device memory.
func (r *rank) download(p cu.DevicePtr, n int) ([]byte, error) {
	out := make([]byte, n)
	if n == 0 {
		return out, nil
	}
	return out, r.w.d.MemcpyDtoH(r.ctx, unsafe.Pointer(&out[0]), p, uintptr(n))
}

func (r *rank) item(c backend.Call) backend.Item {
	return backend.Item{Comm: r.comm, Stream: r.stream, Call: c}
}

// submit makes a call.
func (r *rank) submit(c backend.Call) error {
	return Library{}.Submit([]backend.Item{r.item(c)})
}

var schedules = []string{"eager", "lazy", "random:7"}

func bytesOf[T any](list []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(zero)))
}

func cuPtr(p uint64) cu.DevicePtr { return cu.DevicePtr(p) }

func hostAddress(p []float32) uint64 { return uint64(uintptr(unsafe.Pointer(&p[0]))) }

func TestAllReduce(t *testing.T) {
	for _, schedule := range schedules {
		t.Run(strings.ReplaceAll(schedule, ":", ""), func(t *testing.T) {
			w := newWorld(t, 2, schedule, nil)
			began := time.Now()
			w.each(func(i int, r *rank) error {
				in := []float32{1, 2, 3, 4, 5}
				for j := range in {
					in[j] *= float32(1 + 9*i)
				}
				p := r.alloc(bytesOf(in))
				if err := r.submit(backend.Call{Kind: backend.AllReduce, Type: backend.Float32, Count: len(in), Send: uint64(p), Recv: uint64(p)}); err != nil {
					return err
				}
				got := elements[float32](r.read(p, 4*len(in)))
				for j, x := range got {
					if want := float32(11 * (j + 1)); x != want {
						t.Errorf("rank %d: element %d is %v, want %v", i, j, x, want)
					}
				}
				return r.comm.Err()
			})
			t.Log(time.Since(began), w.d.Now())
		})
	}
}
