package ferry_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// eachTwo runs a test on two software GPUs and on two real ones.
func eachTwo(t *testing.T, test func(t *testing.T, a, b *ferry.GPU)) {
	t.Run("device=soft:h200*2", func(t *testing.T) {
		all := must(ferry.OpenAll("soft:h200*2"))(t)
		test(t, all[0], all[1])
		closeAll(t, all[0], all[1])
	})
	t.Run("device=cuda", func(t *testing.T) {
		if os.Getenv("FERRY_REQUIRE_GPU") != "1" {
			t.Skip("FERRY_REQUIRE_GPU is not 1")
		}
		all := must(ferry.OpenAll("cuda"))(t)
		defer func() {
			for _, g := range all {
				closeAll(t, g)
			}
		}()
		if len(all) < 2 {
			t.Skip("there is one GPU")
		}
		test(t, all[0], all[1])
	})
}

// TestPeer: kernels use another GPU's memory once that is enabled, and are refused
// it before the driver sees it.
func TestPeer(t *testing.T) {
	eachTwo(t, func(t *testing.T, a, b *ferry.GPU) {
		const n = 10_000
		s := must(ferry.NewStream(a, nil))(t)
		code, k := load(t, a, "increment")
		near, far := must(ferry.Alloc[float32](a, n))(t), must(ferry.Alloc[float32](b, n))(t)
		host := must(ferry.AllocHost[float32](b, n, &ferry.HostOptions{Mapped: true}))(t)
		for i := range host.Slice() {
			host.Slice()[i] = float32(i)
		}
		check(t, s.Launch(k, ferry.Grid(n, 256), host, uint64(n))) // portable: no peer access needed
		check(t, ferry.Copy(s, far, host))
		wantError(t, s.Launch(k, ferry.Grid(n, 256), far, uint64(n)), cu.ErrorPeerAccessNotEnabled, "parameter 0", "memory of another GPU", "EnablePeer", "or Copy")
		can := must(a.CanAccessPeer(b))(t)
		if !can {
			wantError(t, a.EnablePeer(b), cu.ErrorPeerAccessUnsupported, "cuDeviceCanAccessPeer is 0")
			t.Skip("the GPUs cannot reach each other")
		}
		check(t, a.EnablePeer(b))
		check(t, a.EnablePeer(b))
		check(t, s.Launch(k, ferry.Grid(n, 256), far, uint64(n)))
		check(t, ferry.Copy(s, near, far))
		check(t, ferry.Copy(s, host, near))
		for i, got := range host.Slice() {
			if got != float32(i+2) {
				t.Fatalf("element %d is %v, want %d", i, got, i+2)
			}
		}
		closeAll(t, near, far, host, code, s)
	})
}

// TestPeerBad is what peer access is refused for.
func TestPeerBad(t *testing.T) {
	g := openTest(t)
	if !must(g.CanAccessPeer(g))(t) {
		t.Error("a GPU cannot use its own memory")
	}
	check(t, g.EnablePeer(g))
	other := must(ferry.Open("soft"))(t)
	if must(g.CanAccessPeer(other))(t) {
		t.Error("GPUs of different drivers can use each other's memory")
	}
	wantError(t, g.EnablePeer(other), cu.ErrorPeerAccessUnsupported, "different drivers")
	wantError(t, g.EnablePeer(nil), cu.ErrorInvalidValue, "enable peer access: no GPU given")
	wantError(t, (*ferry.GPU)(nil).EnablePeer(g), cu.ErrorInvalidValue, "no GPU given")
	closeAll(t, other)
	wantError(t, g.EnablePeer(other), ferry.ErrClosed, "enable peer access")
}

// TestWrongDevice: streams, kernels and events of two devices that do not go
// together are the documented errors; copies go together with any stream.
func TestWrongDevice(t *testing.T) {
	eachTwo(t, func(t *testing.T, a, b *ferry.GPU) {
		s, far := must(ferry.NewStream(a, nil))(t), must(ferry.NewStream(b, nil))(t)
		code := must(ferry.Load(a, []byte(kernels.PTX)))(t)
		k := must(code.Kernel("increment"))(t)
		v := must(ferry.Alloc[float32](a, 100))(t)
		host := must(ferry.AllocHost[float32](a, 100, nil))(t)
		wantError(t, far.Launch(k, ferry.Grid(100, 32), v, uint64(100)), cu.ErrorInvalidHandle, "the kernel was loaded on")
		mine, theirs := must(ferry.NewEvent(a, nil))(t), must(ferry.NewEvent(b, nil))(t)
		wantError(t, s.Record(theirs), cu.ErrorInvalidHandle, "belong to one GPU")
		wantError(t, far.Record(mine), cu.ErrorInvalidHandle, "belong to one GPU")
		check(t, s.Record(mine))
		check(t, far.Record(theirs))
		_, err := theirs.Since(mine)
		wantError(t, err, cu.ErrorInvalidHandle, "measure", "belong to one GPU")
		check(t, s.WaitEvent(theirs))
		check(t, theirs.Wait(context.Background()))

		for i := range host.Slice() {
			host.Slice()[i] = float32(i)
		}
		want := bytes.Clone(flat(host.Slice()))
		check(t, ferry.Copy(far, v, host)) // memory of one device in a stream of the other
		clear(host.Slice())
		check(t, v.Wait(context.Background()))
		check(t, ferry.Copy(far, host, v))
		if !bytes.Equal(flat(host.Slice()), want) {
			t.Error("the bytes differ")
		}
		closeAll(t, mine, theirs, v, host, code, s, far)
	})
}
