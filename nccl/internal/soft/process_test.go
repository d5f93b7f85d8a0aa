package soft

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
	"github.com/ferrygpu/ferry/softgpu"
)

// The test with processes starts this test binary again, once for each rank.
const (
	rankVariable    = "FERRY_TEST_SOFT_RANK"
	addressVariable = "FERRY_TEST_SOFT_ADDRESS"
	processes       = 8
)

// TestProcesses: eight processes over TCP. All collectives, for all types, in place and out of place, from
// 1 element to 4 MiB, have the bits of the reference; a wrong count, another order, a rank that never calls and
// one whose process ends are named by all others.
func TestProcesses(t *testing.T) {
	t.Parallel()
	if rank := os.Getenv(rankVariable); rank != "" {
		r, _ := strconv.Atoi(rank)
		inProcess(t, r)
		return
	}
	var outs []bytes.Buffer
	var errs []error
	for range 3 { // another process may take the port meanwhile
		outs, errs = startRanks(t)
		if !strings.Contains(outs[0].String(), "address already in use") {
			break
		}
	}
	for i, err := range errs {
		if (err != nil) != (i == processes-1) { // the last one ends without a goodbye
			t.Errorf("rank %d: %v", i, err)
		}
	}
	for i := range outs {
		if t.Failed() {
			t.Logf("rank %d:\n%s", i, &outs[i])
		}
	}
	t.Log(strings.TrimSpace(outs[0].String()))
}

// startRanks runs the ranks, and returns what they wrote and how they ended.
func startRanks(t *testing.T) ([]bytes.Buffer, []error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	outs, errs := make([]bytes.Buffer, processes), make([]error, processes)
	var all sync.WaitGroup
	for i := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcesses$", "-test.v", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), rankVariable+"="+strconv.Itoa(i), addressVariable+"="+address)
		cmd.Stdout, cmd.Stderr = &outs[i], &outs[i]
		all.Go(func() { errs[i] = cmd.Run() })
	}
	all.Wait()
	return outs, errs
}

// manyTrials are the trials of processes: of the long form all with one element, and fewer with more.
func manyTrials(t *testing.T) []trial {
	const n = processes
	part := func(counts []int, few, many int) []trial {
		if !sample.Full() {
			return draw(t, trials(n, counts), few)
		}
		return spread(trials(n, counts), many)
	}
	list := part([]int{1}, 50, 552)
	list = append(list, part([]int{13, 3000}, 40, 241)...)
	for _, x := range part([]int{4 << 20}, 8, 61) {
		x.Count /= x.Type.Size() // 4 MiB in all
		switch x.Kind {
		case backend.AllGather, backend.Gather, backend.ReduceScatter, backend.Scatter, backend.AllToAll:
			x.Count /= n
		}
		list = append(list, x)
	}
	return list
}

// inProcess is what the process of a rank does.
func inProcess(t *testing.T, i int) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, d: d}
	w.ok(d.Init(0))
	ctx, err := d.DevicePrimaryCtxRetain(0)
	w.ok(err)
	stream, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
	w.ok(err)
	r := &rank{w: w, ctx: ctx, stream: stream}
	session, err := rendezvous.Join(t.Context(), rendezvous.World{Rank: i, Size: processes, Addr: os.Getenv(addressVariable)}, &rendezvous.Options{Timeout: 20 * time.Second})
	w.ok(err)
	began := time.Now()
	p := &child{t, r, session, i}
	p.open("all", time.Minute)
	list := manyTrials(t)
	m := &arena{send: r.alloc(make([]byte, 4<<20+4096)), recv: r.alloc(make([]byte, 4<<20+4096))}
	for _, x := range list {
		w.ok(x.run(r, i, processes, m))
	}
	w.ok(r.comm.Close(t.Context()))
	fmt.Printf("%d trials in %v\n", len(list), time.Since(began).Round(time.Millisecond))

	p.wrongCount()
	p.otherOrder()
	p.absent()
	p.dies()
}

// child is a rank in its process.
type child struct {
	t       *testing.T
	r       *rank
	session backend.Session
	rank    int
}

// open opens another communicator of all ranks.
func (p *child) open(name string, timeout time.Duration) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	c, err := Library{}.Open(ctx, &backend.Config{Driver: p.r.w.d, Context: p.r.ctx, Session: p.session, Name: name, Timeout: timeout})
	p.r.w.ok(err)
	p.r.comm = c
	p.gather("open " + name) // a rank that still opens would get the error of a wrong call
}

// fails waits for the stream, and fails unless the communicator has an error with all the texts.
func (p *child) fails(texts ...string) {
	p.t.Helper()
	p.r.w.ok(p.r.w.d.StreamSynchronize(p.r.ctx, p.r.stream))
	deadline := time.Now().Add(10 * time.Second)
	for p.r.comm.Err() == nil && time.Now().Before(deadline) { // a rank that does not call learns it by a message
		time.Sleep(time.Millisecond)
	}
	for _, text := range texts {
		if err := p.r.comm.Err(); err == nil || !strings.Contains(err.Error(), text) {
			p.t.Errorf("rank %d: got %v, want an error with %q", p.rank, err, text)
		}
	}
	p.gather("failed")
	p.r.w.ok(p.r.comm.Abort())
}

// gather waits until all ranks are here.
func (p *child) gather(key string) {
	_, err := p.session.Gather(p.t.Context(), key, nil)
	p.r.w.ok(err)
}

func (p *child) submit(c backend.Call) {
	if err := p.r.submit(p.r.buffer(c)); err != nil && p.r.comm.Err() == nil {
		p.t.Fatal(err)
	}
}

func (p *child) wrongCount() {
	p.open("count", time.Minute)
	c := sum100
	if p.rank == 5 {
		c.Count = 99
	}
	p.submit(sum100)
	p.submit(c)
	p.fails(`communicator "count", call 2: rank `, "all-reduce of 100 float32 (sum)", "rank 5 calls all-reduce of 99 float32 (sum)")
}

func (p *child) otherOrder() {
	p.open("order", time.Minute)
	calls := []backend.Call{sum100, {Kind: backend.Broadcast, Type: backend.Float32, Count: 100}}
	if p.rank == 2 {
		calls[0], calls[1] = calls[1], calls[0]
	}
	p.submit(calls[0])
	p.submit(calls[1])
	p.fails(`communicator "order", call 1: rank `, "all-reduce of 100 float32 (sum)", "rank 2 calls broadcast of 100 float32 from rank 0")
}

func (p *child) absent() {
	p.open("absent", 800*time.Millisecond)
	p.submit(sum100)
	if p.rank != 3 {
		p.submit(sum100)
	}
	p.fails(`communicator "absent", call 2 (all-reduce of 100 float32 (sum)): `, "rank 3 has not called: its last call was call 1, all-reduce of 100 float32 (sum)")
}

// dies ends the last rank without a goodbye while the others wait for it.
func (p *child) dies() {
	p.open("dies", time.Minute)
	p.submit(sum100)
	p.r.w.ok(p.r.w.d.StreamSynchronize(p.r.ctx, p.r.stream))
	p.gather("dies")
	if p.rank == processes-1 {
		os.Exit(3)
	}
	began := time.Now()
	p.submit(sum100)
	p.r.w.ok(p.r.w.d.StreamSynchronize(p.r.ctx, p.r.stream))
	if err := p.r.comm.Err(); err == nil || !strings.Contains(err.Error(), "rank 7") {
		p.t.Errorf("rank %d: got %v, want an error that names rank 7", p.rank, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		p.t.Errorf("rank %d: it took %v", p.rank, took)
	}
	if p.rank == 0 {
		fmt.Println(p.r.comm.Err())
	}
	p.r.w.ok(p.r.comm.Abort())
}
