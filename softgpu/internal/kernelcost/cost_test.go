package kernelcost

import (
	"testing"

	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// newRun returns a run that moved n sectors of a counter in full lines, on a whole H200.
func newRun(t *testing.T, counter int, sectors uint64) (*Launch, *Run) {
	t.Helper()
	p, err := profile.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	stats := &simt.Stats{Traffic: make([]simt.Traffic, NumCounters)}
	stats.Traffic[counter] = simt.Traffic{ReadSectors: sectors, Reads: [4]uint64{3: sectors / 4}}
	return &Launch{Profile: p, Blocks: 1 << 20, Threads: 256}, &Run{Stats: stats, DirtyReadNs: func() float64 { return 0 }}
}

// TestPrice: a kernel takes its floor, the longest of the parts that run at once, and its faults.
func TestPrice(t *testing.T) {
	l, run := newRun(t, CountDevice, 1<<26)
	c := l.Price(run)
	prof := &l.Profile.Kernel
	bytes := float64(32 << 26)
	if want := prof.Floor.Value + (machine{l.Profile}).memoryNs(bytes); c.Parts.Total() != want || c.Memory != bytes {
		t.Errorf("a kernel that reads %v bytes takes %v ns and reads %v, want %v ns", bytes, c.Parts.Total(), c.Memory, want)
	}
	before := c.Parts.Total()
	run.FaultNs, run.Stats.Nap = 1000, 7
	if got := l.Price(run); got.Parts.Total() != before+1000 {
		t.Errorf("faults of 1000 ns make %v of %v", got.Parts.Total(), before)
	}
	run.Stats.Nap = 1 << 30 // longer than all else
	if got, want := l.Price(run), prof.Floor.Value+1<<30+1000; got.Parts.Total() != want {
		t.Errorf("a kernel that saw 2^30 ns on a clock takes %v, want %v", got.Parts.Total(), want)
	}
}

// TestManagedTraffic: traffic with managed memory is divided by the places of its pages.
func TestManagedTraffic(t *testing.T) {
	l, run := newRun(t, CountManaged, 1<<20)
	run.Local, run.Remote = 1<<20, 3<<20
	c := l.Price(run)
	remote := float64(32<<20) * 3 / 4
	if c.Memory != float64(32<<20)/4 || c.In != remote/l.Profile.Link.Payload.Value*1e9 {
		t.Errorf("%v bytes of device memory and %v ns of the link, want %v bytes and those of %v bytes", c.Memory, c.In, float64(32<<20)/4, remote)
	}
}

// TestDirtyReads: reads of page-locked memory that the host has just written take longer, and no
// other kernels ask.
func TestDirtyReads(t *testing.T) {
	l, run := newRun(t, CountHost, 1<<20)
	clean, asked := l.Price(run).Parts.Total(), 0
	run.DirtyReadNs = func() float64 { asked++; return 5000 }
	if dirty := l.Price(run).Parts.Total(); dirty <= clean || asked != 1 {
		t.Errorf("%v ns, and %v where the host has written: asked %d times", clean, dirty, asked)
	}
	l, run = newRun(t, CountDevice, 1<<20)
	run.DirtyReadNs = func() float64 { t.Error("a kernel without reads of host memory asks"); return 0 }
	l.Price(run)
}

// TestResident: shared memory, threads and blocks bound how many blocks run at once.
func TestResident(t *testing.T) {
	p, err := profile.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	const processors = 132
	for _, c := range []struct {
		l    Launch
		want int
	}{
		{Launch{Threads: 1024}, 2}, {Launch{Threads: 256}, 8}, {Launch{Threads: 32}, 32}, {Launch{Threads: 32, Shared: 100 << 10}, 2},
	} {
		c.l.Profile = p
		if got := c.l.Resident(); got != c.want*processors {
			t.Errorf("%d threads and %d bytes of shared memory: %d blocks, want %d", c.l.Threads, c.l.Shared, got, c.want*processors)
		}
	}
}
