package stage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestManyAtOnce: transfers of all kinds and sizes on one ring, some of which are ended
// at any time, say how far they came, and all of that arrives.
func TestManyAtOnce(t *testing.T) {
	const streams, most = 6, 300 << 10
	each := 150
	if testing.Short() {
		each = 30
	}
	r := newRig(t, Settings{Chunk: 8 << 10, Slots: 8, Block: 1 << 10, Threads: 6}, streams*most, softgpu.Random)
	var all sync.WaitGroup
	for i := range streams {
		job := Job{Stream: r.newStream(), Device: r.device + cu.DevicePtr(i*most)}
		luck := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for range each {
				r.anyTransfer(luck, job, most)
			}
		})
	}
	all.Wait()
}

// anyTransfer copies to the device from a source that luck chooses, and what arrived back.
func (r *rig) anyTransfer(luck *rand.Rand, job Job, most int) {
	job.Bytes = int64(1 + luck.IntN([]int{5000, most}[luck.IntN(2)]))
	want := random(job.Bytes)
	there := job
	var src io.ReaderAt = Memory(want)
	switch luck.IntN(3) {
	case 0:
		src = bytes.NewReader(want)
	case 1:
		job.Ordered, src = true, Reader(bytes.NewReader(want))
	}
	ctx := background
	if luck.IntN(2) == 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(luck.IntN(5000))*time.Microsecond)
		defer cancel()
	}
	n, err := r.ring.In(ctx, job, src)
	if errors.Is(err, ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	} else if n != job.Bytes {
		r.Errorf("%d bytes of %d", n, job.Bytes)
	}
	there.Bytes = n
	got := make([]byte, n)
	for back := int64(-1); back < n && err == nil; {
		if back, err = r.ring.Out(background, there, Memory(got)); errors.Is(err, ErrBusy) {
			err = nil
		}
	}
	if err != nil || !bytes.Equal(got, want[:n]) {
		r.Errorf("%d bytes of %d: they differ, or %v", n, job.Bytes, err)
	}
}
