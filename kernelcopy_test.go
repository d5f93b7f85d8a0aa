package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// TestSmallCopyByKernel: a small copy does not wait behind a large one of another stream, in
// either direction, and its bytes are right.
func TestSmallCopyByKernel(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	g := openTest(t)
	const large, small = 256 << 20, 50 << 10
	bulk, urgent := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	host, dev := must(ferry.AllocHost[byte](g, large, nil))(t), must(ferry.Alloc[byte](g, large))(t)
	a, b := must(ferry.AllocHost[byte](g, small, nil))(t), must(ferry.AllocHost[byte](g, small, nil))(t)
	d := must(ferry.Alloc[byte](g, small))(t)
	defer closeAll(t, bulk, urgent, host, dev, a, b, d)
	for name, copies := range map[string][2]func() error{
		"to the device":   {func() error { return ferry.Copy(bulk, dev, host) }, func() error { return ferry.Copy(urgent, d, a) }},
		"from the device": {func() error { return ferry.Copy(bulk, host, dev) }, func() error { return ferry.Copy(urgent, b, d) }},
	} {
		fillRandom(a.Slice())
		check(t, ferry.Copy(urgent, d, a))
		clear(b.Slice())
		check(t, g.Wait(context.Background()))
		check(t, copies[0]())
		check(t, copies[1]())
		check(t, urgent.Wait(context.Background()))
		done, err := bulk.Done()
		check(t, err)
		if done && g.Emulated() { // hardware may have finished by now
			t.Errorf("%s: the large copy is done when the small one is", name)
		}
		check(t, ferry.Copy(urgent, b, d))
		wantBytes(t, b.Slice(), a.Slice())
		check(t, bulk.Wait(context.Background()))
	}
}

// errorOnceDriver returns an error from StreamQuery, once.
type errorOnceDriver struct {
	cu.Driver
	err error
}

func (d *errorOnceDriver) Unwrap() cu.Driver { return d.Driver }

func (d *errorOnceDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if err := d.err; err != nil {
		d.err = nil
		return err
	}
	return d.Driver.StreamQuery(ctx, s)
}

// TestSmallCopyKeepsPanic: the query of the large copy's stream may return the panic of a host
// function, which the driver reports once. Wait of that stream returns it nevertheless.
func TestSmallCopyKeepsPanic(t *testing.T) {
	d := &errorOnceDriver{Driver: openTest(t).Driver()}
	g := must(ferry.OpenDriver(d, 0))(t)
	bulk, urgent := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	host, dev := must(ferry.AllocHost[byte](g, 8<<20, nil))(t), must(ferry.Alloc[byte](g, 8<<20))(t)
	small := must(ferry.Alloc[byte](g, 100))(t)
	defer closeAll(t, bulk, urgent, host, dev, small, g)
	check(t, ferry.Copy(bulk, dev, host))
	d.err = &cu.HostPanic{Value: "planted"}
	check(t, ferry.Copy(urgent, small, host.Range(0, 100)))
	if d.err != nil {
		t.Fatal("the stream was not queried")
	}
	err := bulk.Wait(context.Background())
	if p, ok := errors.AsType[*cu.HostPanic](err); !ok || p.Value != "planted" {
		t.Errorf("Wait returns %v, want the panic", err)
	}
}
