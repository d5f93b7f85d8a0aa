package ferry_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// opaqueDriver loads code that is no PTX, and may know its parameters or not. Its
// launches keep what they were given.
type opaqueDriver struct {
	*fakeDriver
	sizes  []uintptr // of the parameters, 8 bytes apart; nil: too old to know
	params []byte
	broken error // of every wait
}

func (d *opaqueDriver) FuncGetParamInfo(_ cu.Context, _ cu.Function, i uintptr) (offset, size uintptr, err error) {
	switch {
	case d.sizes == nil:
		return 0, 0, &cu.NotSupportedError{Call: "cuFuncGetParamInfo", Needs: "CUDA 12.4 or newer", Found: "an old driver"}
	case i >= uintptr(len(d.sizes)):
		return 0, 0, cu.ErrorInvalidValue
	}
	return 8 * i, d.sizes[i], nil
}

func (d *opaqueDriver) LaunchKernel(_ cu.Context, _ cu.Function, _, _ cu.Dim3, _ uint32, _ cu.Stream, params []byte) error {
	d.params = bytes.Clone(params)
	return nil
}

func (d *opaqueDriver) StreamSynchronize(cu.Context, cu.Stream) error { return d.broken }
func (d *opaqueDriver) CtxSynchronize(cu.Context) error               { return d.broken }

// TestOpaqueCode: arguments of kernels whose source Ferry does not have.
func TestOpaqueCode(t *testing.T) {
	d := &opaqueDriver{fakeDriver: newFake()}
	g := openFake(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte{0x7f, 'E', 'L', 'F', 0}))(t)
	unknown := must(m.Kernel("k"))(t)
	if m.Kernels() != nil || unknown.Params() != nil {
		t.Errorf("kernels %q, parameters %v", m.Kernels(), unknown.Params())
	}
	check(t, s.Launch(unknown, ferry.Grid(1, 1), uint8(1), uint32(2), uint16(3), uint64(4)))
	want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}
	if !bytes.Equal(d.params, want) {
		t.Errorf("packed as %v, want %v", d.params, want)
	}
	wantError(t, s.Launch(unknown, ferry.Grid(1, 1), uint8(1), "two"), cu.ErrorInvalidValue, "argument 1", "string")

	d.sizes = []uintptr{4, 8}
	known := must(m.Kernel("k"))(t)
	check(t, s.Launch(known, ferry.Grid(1, 1), float32(0), uint64(5)))
	if want := []byte{0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(d.params, want) {
		t.Errorf("packed as %v, want %v", d.params, want)
	}
	wantError(t, s.Launch(known, ferry.Grid(1, 1), uint64(0), uint64(5)), cu.ErrorInvalidValue, "parameter 0 (4 bytes)", "got uint64, 8 bytes", "want 4 bytes")
	wantError(t, s.Launch(known, ferry.Grid(1, 1), uint32(0)), cu.ErrorInvalidValue, "1 arguments", "2 parameters: 4 bytes, 8 bytes")

	d.broken = cu.ErrorIllegalAddress // as hardware says it: without the kernel
	wantError(t, s.Wait(context.Background()), cu.ErrorIllegalAddress, "wait for stream 1", "the last kernel launched there was k")
	quiet := must(ferry.NewStream(g, nil))(t)
	wantError(t, quiet.Wait(context.Background()), cu.ErrorIllegalAddress, "stream 2", "no kernel was launched there")
	wantError(t, g.Wait(context.Background()), cu.ErrorIllegalAddress, "wait for all work")
	d.broken = nil
	check(t, quiet.Wait(context.Background()))
	closeAll(t, quiet, m, s)
}

// TestSharedMemory launches with more shared memory than is given without asking.
func TestSharedMemory(t *testing.T) {
	g := openTest(t)
	most, err := g.Attribute(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin)
	if err != nil {
		t.Skip(err)
	}
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	v := must(ferry.Alloc[float32](g, 10))(t)
	check(t, ferry.Fill(s, v, 1))
	shape := ferry.Grid(10, 32)
	for _, shape.SharedBytes = range []int{0, 1, 40 << 10, 100 << 10, most} {
		check(t, s.Launch(k, shape, v, uint64(10)))
	}
	shape.SharedBytes = most + 1
	wantError(t, s.Launch(k, shape, v, uint64(10)), cu.ErrorInvalidValue, "bytes of shared memory")
	got := make([]float32, 10)
	check(t, ferry.Copy(s, ferry.Pageable(got), v))
	if got[9] != 6 {
		t.Errorf("got %v, want 6", got[9])
	}
	closeAll(t, code, v, s)
}

// TestManyStreams uses one buffer on more streams than one has lanes for, again
// and again: it knows of all of them.
func TestManyStreams(t *testing.T) {
	g := openTest(t)
	const streams = 12
	host, device := must(ferry.AllocHost[byte](g, streams*100, nil))(t), must(ferry.Alloc[byte](g, streams*100))(t)
	for round := range 5 {
		clear(host.Slice())
		var all []*ferry.Stream
		var gates []func()
		for i := range streams {
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			all, gates = append(all, s), append(gates, gate(t, s))
			check(t, ferry.Fill(s, device.Range(100*i, 100*i+100), byte(round*streams+i+1)))
			check(t, ferry.Copy(s, host.Range(100*i, 100*i+100), device.Range(100*i, 100*i+100)))
		}
		waits(t, "Slice", func() {
			for _, open := range gates {
				open()
			}
		}, func() {
			for i, got := range host.Slice() {
				if want := byte(round*streams + i/100 + 1); got != want {
					t.Errorf("byte %d is %d, want %d", i, got, want)
					return
				}
			}
		})
		for _, s := range all {
			closeAll(t, s)
		}
	}
	closeAll(t, host, device)
}
