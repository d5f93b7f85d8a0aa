package staging

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
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestManyAtOnce: transfers of all kinds and sizes share one ring, and contexts end some
// of them at any time. Each returns how many bytes it has copied, and those arrive.
func TestManyAtOnce(t *testing.T) { manyAtOnce(t, sized(8<<10, 8, 1<<10, 6), 150) }

// TestManyTurns is TestManyAtOnce where transfers lose their places all the time.
func TestManyTurns(t *testing.T) {
	for places := 1; places < 4; places++ {
		set := sized(8<<10, 8, 1<<10, 6)
		set.MaxTransfers, set.HoldTime = places, time.Microsecond
		set.SlotWait = 100 * time.Microsecond // also the time between two checks of the gate
		manyAtOnce(t, set, 30)
	}
}

func manyAtOnce(t *testing.T, set Settings, each int) {
	const streams, most = 6, 300 << 10
	if testing.Short() || !sample.Full() {
		each /= 5
	}
	r := newRig(t, set, streams*most, softgpu.Random)
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

// anyTransfer copies to the device from a random source, and back what has arrived.
func (r *rig) anyTransfer(luck *rand.Rand, job Job, most int) {
	job.Bytes = int64(1 + luck.IntN([]int{5000, most}[luck.IntN(2)]))
	want := random(job.Bytes)
	back := job
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
	back.Bytes = n
	got := make([]byte, n)
	for done := int64(-1); done < n && err == nil; {
		if done, err = r.ring.Out(background, back, Memory(got)); errors.Is(err, ErrBusy) {
			err = nil
		}
	}
	if err != nil || !bytes.Equal(got, want[:n]) {
		r.Errorf("%d bytes of %d: they differ, or %v", n, job.Bytes, err)
	}
}
