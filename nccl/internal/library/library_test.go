package library

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
)

// fake is an NCCL that notes its calls.
type fake struct {
	version int32
	fails   function // that returns an error, -1 for none
	hangs   chan struct{}
	made    []string
	live    int // communicators
	groups  int // that are open
}

// driver is that of a GPU.
type driver struct{ gputest.Fake }

func (*driver) DeviceGetUuid(cu.Device) ([16]byte, error) { return [16]byte{1}, nil }

// library returns a Library whose functions are those of the fake.
func (x *fake) library() *Library {
	l := &Library{path: "fake"}
	for f := range l.functions {
		l.functions[f] = uintptr(f) + 1
	}
	l.call = func(fn uintptr, args ...uintptr) uintptr { return x.called(function(fn-1), args) }
	return l
}

func (x *fake) called(f function, args []uintptr) uintptr {
	if f == getErrorString || f == getLastError {
		return 0
	}
	x.made = append(x.made, fmt.Sprint(functionNames[f], args))
	if f == commInitRankScalable && x.hangs != nil {
		<-x.hangs
	}
	switch f {
	case groupEnd:
		x.groups--
	case commDestroy, commAbort:
		x.live--
	}
	if f == x.fails {
		return uintptr(backend.InternalError) | 0xabcd<<32 // C leaves what it likes in the upper half
	}
	switch f {
	case groupStart:
		x.groups++
	case getVersion:
		setInt(args[0], x.version)
	case commInitRankScalable:
		x.live++
		setWord(args[0], 0x1000)
	case commSplit:
		x.live++
		setWord(args[3], 0x2000)
	case redOpCreatePreMulSum:
		setInt(args[0], 5)
	case commRegister:
		setWord(args[3], 0x77)
	}
	return 0
}

// open makes the communicator of rank 1 of 3.
func (x *fake) open(t *testing.T) (*Library, *comm) {
	t.Helper()
	l := x.library()
	if err := l.askVersion(); err != nil {
		t.Fatal(err)
	}
	c := &comm{lib: l, config: backend.Config{Driver: new(driver)}, handle: 0x1000, rank: 1, size: 3}
	x.made = nil
	return l, c
}

// TestCalls: each call passes what nccl.h says, in that order.
func TestCalls(t *testing.T) {
	for _, test := range []struct {
		call backend.Call
		want []string
	}{
		{backend.Call{Kind: backend.AllReduce, Type: backend.Float32, Op: backend.Op{Code: backend.Max}, Count: 9, Send: 1, Recv: 2}, []string{"ncclAllReduce[1 2 9 7 2 4096 8]"}},
		{backend.Call{Kind: backend.AllReduce, Type: backend.Float64, Op: backend.Op{Code: backend.PreMulSum, Handle: 6}, Count: 9, Send: 1, Recv: 2}, []string{"ncclAllReduce[1 2 9 8 6 4096 8]"}},
		{backend.Call{Kind: backend.Broadcast, Type: backend.Int8, Peer: 2, Count: 9, Send: 1, Recv: 2}, []string{"ncclBroadcast[1 2 9 0 2 4096 8]"}},
		{backend.Call{Kind: backend.Reduce, Type: backend.Uint64, Op: backend.Op{Code: backend.Min}, Peer: 2, Count: 9, Send: 1, Recv: 2}, []string{"ncclReduce[1 2 9 5 3 2 4096 8]"}},
		{backend.Call{Kind: backend.AllGather, Type: backend.Float16, Count: 9, Send: 1, Recv: 2}, []string{"ncclAllGather[1 2 9 6 4096 8]"}},
		{backend.Call{Kind: backend.ReduceScatter, Type: backend.BFloat16, Op: backend.Op{Code: backend.Avg}, Count: 9, Send: 1, Recv: 2}, []string{"ncclReduceScatter[1 2 9 9 4 4096 8]"}},
		{backend.Call{Kind: backend.Send, Type: backend.Float8E4M3, Peer: 2, Count: 9, Send: 1}, []string{"ncclSend[1 9 10 2 4096 8]"}},
		{backend.Call{Kind: backend.Recv, Type: backend.Float8E5M2, Peer: 0, Count: 9, Recv: 2}, []string{"ncclRecv[2 9 11 0 4096 8]"}},
		{backend.Call{Kind: backend.AllToAll, Type: backend.Int32, Count: 4, Send: 1000, Recv: 2000}, []string{"ncclGroupStart[]",
			"ncclSend[1000 4 2 0 4096 8]", "ncclRecv[2000 4 2 0 4096 8]", "ncclSend[1016 4 2 1 4096 8]", "ncclRecv[2016 4 2 1 4096 8]",
			"ncclSend[1032 4 2 2 4096 8]", "ncclRecv[2032 4 2 2 4096 8]", "ncclGroupEnd[]"}},
		{backend.Call{Kind: backend.Gather, Type: backend.Int32, Peer: 0, Count: 4, Send: 1000}, []string{"ncclGroupStart[]", "ncclSend[1000 4 2 0 4096 8]", "ncclGroupEnd[]"}},
		{backend.Call{Kind: backend.Gather, Type: backend.Int32, Peer: 1, Count: 4, Send: 1000, Recv: 2000}, []string{"ncclGroupStart[]", "ncclRecv[2000 4 2 0 4096 8]",
			"ncclSend[1000 4 2 1 4096 8]", "ncclRecv[2016 4 2 1 4096 8]", "ncclRecv[2032 4 2 2 4096 8]", "ncclGroupEnd[]"}},
		{backend.Call{Kind: backend.Scatter, Type: backend.Int32, Peer: 2, Count: 4, Recv: 2000}, []string{"ncclGroupStart[]", "ncclRecv[2000 4 2 2 4096 8]", "ncclGroupEnd[]"}},
	} {
		x := &fake{version: 22803, fails: -1}
		l, c := x.open(t)
		if err := l.Submit([]backend.Item{{Comm: c, Stream: 8, Call: test.call}}); err != nil {
			t.Error(err)
		}
		if !slices.Equal(x.made, test.want) {
			t.Errorf("%v:\ngot  %v\nwant %v", test.call.Kind, x.made, test.want)
		}
	}
}

// TestFaults: an error of each function reaches the caller with its name, no group stays open and
// no communicator is left.
func TestFaults(t *testing.T) {
	for f := range numFunctions {
		if f == getErrorString || f == getLastError || f == getVersion {
			continue
		}
		x := &fake{version: 22803, fails: f}
		l := x.library()
		err := everything(l)
		want, ok := errors.AsType[*backend.ResultError](err)
		if !ok || want.Function != functionNames[f] || !errors.Is(err, backend.InternalError) {
			t.Errorf("%s fails: got %v", functionNames[f], err)
		}
		if x.groups != 0 || x.live != 0 {
			t.Errorf("%s fails: %d groups and %d communicators are left", functionNames[f], x.groups, x.live)
		}
	}
	x := &fake{version: 22803, fails: -1}
	if err := everything(x.library()); err != nil {
		t.Error(err)
	}
}

// everything calls every function and returns the first error. It closes what it has opened.
func everything(l *Library) (first error) {
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	config := &backend.Config{Driver: new(driver), Session: rendezvous.Local(1)[0]}
	ctx := context.Background()
	opened, err := l.Open(ctx, config)
	if err != nil {
		return err
	}
	c := opened.(*comm)
	for k := backend.AllReduce; k <= backend.Recv; k++ {
		note(l.Submit([]backend.Item{{Comm: c, Call: backend.Call{Kind: k}}}))
	}
	note(c.Err())
	if op, err := c.PreMulSum(backend.Int8, [8]byte{}); err != nil {
		note(err)
	} else {
		note(c.DestroyOp(op))
	}
	if h, err := c.Register(1, 1); err != nil {
		note(err)
	} else {
		note(c.Deregister(h))
	}
	if part, err := c.Split(ctx, 0, 0, config.Session, "part"); err != nil {
		note(err)
	} else {
		note(part.Abort())
	}
	note(c.Close(ctx))
	return first
}

// TestOpenWaits: a rank that does not come ends Open with the context, and a communicator that comes
// later is aborted.
func TestOpenWaits(t *testing.T) {
	x := &fake{version: 22803, fails: -1, hangs: make(chan struct{})}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	_, err := x.library().Open(ctx, &backend.Config{Driver: new(driver), Session: rendezvous.Local(1)[0]})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	close(x.hangs)
}

// TestVersion: an old library is refused with both versions.
func TestVersion(t *testing.T) {
	err := (&fake{version: 22105, fails: -1}).library().askVersion()
	if err == nil || !strings.Contains(err.Error(), "NCCL 2.21.5 is too old, want 2.23.0") {
		t.Error(err)
	}
}

// TestAgree: ranks with different versions or the same GPU are named.
func TestAgree(t *testing.T) {
	id := make([]byte, idBytes)
	first := introduction{22803, "GPU-1", "0", id}
	for want, second := range map[string]introduction{
		"rank 0 has NCCL 2.28.3, and rank 1 has 2.27.5":      {22705, "GPU-2", "0", nil},
		"ranks 0 and 1 have the same GPU, GPU-1":             {22803, "GPU-1", "0", nil},
		`rank 0 has NCCL_NVLS_ENABLE="0", and rank 1 has ""`: {22803, "GPU-2", "", nil},
		"": {22803, "GPU-2", "0", nil},
	} {
		got, err := agree([][]byte{first.bytes(), second.bytes()}, 0)
		switch {
		case want == "" && (err != nil || len(got) != idBytes):
			t.Errorf("got %d bytes, %v", len(got), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for n := range len(first.bytes()) {
		if _, err := agree([][]byte{first.bytes()[:n]}, 0); err == nil {
			t.Errorf("an introduction of %d bytes is accepted", n)
		}
	}
}

// TestConfig: the fields are where version 2.23 has them.
func TestConfig(t *testing.T) {
	b := configBytes()
	if len(b) != 48 || binary.LittleEndian.Uint64(b) != 48 || binary.LittleEndian.Uint32(b[8:]) != 0xcafebeef || binary.LittleEndian.Uint32(b[12:]) != Lowest || binary.LittleEndian.Uint32(b[16:]) != 1 {
		t.Errorf("%x", b)
	}
}

// TestAllocations: a call allocates nothing.
func TestAllocations(t *testing.T) {
	x := &fake{version: 22803, fails: -1}
	l, c := x.open(t)
	l.call = func(uintptr, ...uintptr) uintptr { return 0 }
	group := []backend.Item{{Comm: c, Call: backend.Call{Kind: backend.AllReduce}}}
	if n := testing.AllocsPerRun(100, func() {
		if err := l.Submit(group); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
