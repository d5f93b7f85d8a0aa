package sweep

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
)

func upload(ctx context.Context, g *ferry.GPU, b *base) error {
	d, err := ferry.Upload(g, b.host.Slice())
	if d, ok := take(&b.user, d, err); ok {
		words, err := ferry.Download(d)
		if err != nil {
			return err
		}
		return same(words, 0)
	}
	return nil
}

func memPool(ctx context.Context, g *ferry.GPU, b *base) error {
	p, err := ferry.NewMemPool(g, nil)
	p, ok := take(&b.user, p, err)
	if !ok {
		return nil
	}
	m, err := ferry.AllocAsync[float32](b.s, n, p)
	if m, ok := take(&b.user, m, err); ok {
		return steps(
			func() error { return p.SetKeep(1 << 20) },
			func() error { return ferry.Copy(b.s, m, b.host) },
			func() error { return ferry.Copy(b.s, b.host, m) },
			func() error { return b.s.Wait(ctx) },
			func() error { return p.Trim(0) },
			func() error { _, err := p.Stats(); return err },
			func() error { return same(b.host.Slice(), 0) })
	}
	return nil
}

func times(ctx context.Context, g *ferry.GPU, b *base) error {
	var e [2]*ferry.Event
	for i := range e {
		made, err := ferry.NewEvent(g, nil)
		var ok bool
		if e[i], ok = take(&b.user, made, err); !ok {
			return nil
		}
	}
	return steps(
		func() error { return b.s.Record(e[0]) },
		func() error { return ferry.Fill(b.s, b.on, 1) },
		func() error { return b.s.Record(e[1]) },
		func() error { return e[1].Wait(ctx) },
		func() error { _, err := e[1].Done(); return err },
		func() error { _, err := e[1].Since(e[0]); return err },
		func() error { _, err := b.s.Done(); return err },
		func() error { return g.Wait(ctx) })
}

// values writes a value and waits for it. The word fulfils the condition without the write, too,
// because a wait whose write was refused would never end.
func values(ctx context.Context, g *ferry.GPU, b *base) error {
	made, err := ferry.Alloc[uint32](g, 2)
	word, ok := take(&b.user, made, err)
	if !ok {
		return nil
	}
	return steps(
		func() error { return ferry.Fill(b.s, word, 1) },
		func() error { return ferry.WriteValue(b.s, word, 5) },
		func() error { return ferry.WaitValue(b.s, word, cu.StreamWaitValueAND, 1) },
		func() error { return b.s.Wait(ctx) })
}

func update(ctx context.Context, g *ferry.GPU, b *base) error {
	record := func(src *ferry.Host[float32]) func(s *ferry.Stream) error {
		return func(s *ferry.Stream) error { return ferry.Copy(s, b.on, src) }
	}
	x, err := b.s.Capture(record(b.host))
	if x, ok := take(&b.user, x, err); ok {
		return steps(
			func() error { return x.Update(b.s, record(b.host)) },
			func() error { return x.Launch(b.s) },
			func() error { return ferry.Copy(b.s, b.host, b.on) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(b.host.Slice(), 0) })
	}
	return nil
}

func facts(ctx context.Context, g *ferry.GPU, b *base) error {
	k, ok := increment(g, &b.user)
	if !ok {
		return nil
	}
	return steps(
		func() error { _, err := k.Facts(); return err },
		func() error { _, err := k.Occupancy(256, 0); return err },
		func() error { _, _, err := k.SuggestBlock(0); return err },
		func() error { _, err := k.AvailableShared(1, 256); return err },
		func() error { return k.SetCache(cu.FuncCachePreferL1) },
		func() error { return k.SetCarveout(50) },
		func() error { _, _, err := g.MemInfo(); return err },
		func() error { _, _, err := g.Priorities(); return err },
		func() error { _, err := b.host.Flags(); return err })
}

func advice(ctx context.Context, g *ferry.GPU, b *base) error {
	m, err := ferry.AllocManaged[float32](g, n, nil)
	if m, ok := take(&b.user, m, err); ok {
		return steps(
			func() error { return m.Advise(cu.MemAdviseSetReadMostly, g.CUDevice()) },
			func() error { _, err := m.Advice(); return err },
			func() error { return ferry.Copy(b.s, m, b.host) },
			func() error { return m.Wait(ctx) },
			func() error { return same(m.ReadSlice(), 0) })
	}
	return nil
}

func priority(ctx context.Context, g *ferry.GPU, b *base) error {
	s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true, Priority: -1})
	if s, ok := take(&b.user, s, err); ok {
		h, err := ferry.AllocHostContext[float32](ctx, g, n, nil)
		if h, ok := take(&b.user, h, err); ok {
			return steps(
				func() error { return ferry.Copy(g.DefaultStream(), b.on, b.host) },
				func() error { return g.DefaultStream().Wait(ctx) },
				func() error { return ferry.Copy(s, h, b.on) },
				func() error { words, err := h.SliceContext(ctx); return errors.Join(err, check(words)) },
				func() error { words, err := h.ReadSliceContext(ctx); return errors.Join(err, check(words)) })
		}
	}
	return nil
}

// check is same with 0 for words that may be missing because a call failed.
func check(words []float32) error {
	if words == nil {
		return nil
	}
	return same(words, 0)
}

func warm(ctx context.Context, g *ferry.GPU, b *base) error {
	p, err := ferry.NewPinnedPool(g, nil)
	if p, ok := take(&b.user, p, err); ok {
		return steps(
			func() error { return p.Warm(ctx, 1<<16) },
			func() error {
				var h ferry.Host[float32]
				err := h.Alloc(p, n)
				return errors.Join(err, h.Close())
			},
			func() error { return p.Trim(0) },
			func() error {
				held, err := p.Stats()
				if err == nil && held.MostPinned == 0 {
					return errors.New("no statistics")
				}
				return err
			})
	}
	return nil
}

func rectangle(ctx context.Context, g *ferry.GPU, b *base) error {
	d, pitch, err := ferry.AllocPitched[float32](g, 64, n/64)
	if d, ok := take(&b.user, d, err); ok {
		on := d.Rect()
		on.Pitch = pitch
		host := ferry.Rect[float32]{Memory: b.host, Width: 64, Height: n / 64}
		return steps(
			func() error { return ferry.CopyRect(b.s, on, host) },
			func() error { return ferry.CopyRect(b.s, host, on) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(b.host.Slice(), 0) })
	}
	return nil
}

// grown copies numbers through a buffer that grows.
func grown(ctx context.Context, g *ferry.GPU, b *base) error {
	d, err := ferry.AllocVirtual[float32](g, n/2, &ferry.VirtualOptions{Max: 1 << 20})
	d, ok := take(&b.user, d, err)
	if !ok {
		return nil
	}
	return steps(
		func() error { return ferry.Copy(b.s, d, b.host.Range(0, n/2)) },
		func() (err error) { d, err = d.Grow(1 << 20); return err },
		func() error { return ferry.Copy(b.s, d.Range(n/2, n), b.host.Range(n/2, n)) },
		func() error { return ferry.Copy(b.s, b.host, d.Range(0, n)) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 0) })
}

// shared copies numbers to a buffer, and from another one of the same memory.
func shared(ctx context.Context, g *ferry.GPU, b *base) error {
	d, err := ferry.AllocVirtual[float32](g, n, &ferry.VirtualOptions{Share: true})
	d, ok := take(&b.user, d, err)
	if !ok {
		return nil
	}
	f, err := ferry.Share(d)
	if f, ok = take(&b.user, f, err); !ok {
		return nil
	}
	e, err := ferry.Import[float32](g, f, n)
	if e, ok = take(&b.user, e, err); !ok {
		return nil
	}
	return steps(
		func() error { return ferry.Copy(b.s, d, b.host) },
		func() error { return b.s.Wait(ctx) },
		func() error { return ferry.Copy(b.s, b.host, e) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 0) })
}

// views copies numbers as bytes, and as pairs of numbers.
func views(ctx context.Context, g *ferry.GPU, b *base) error {
	d, err := ferry.Alloc[byte](g, 4*n)
	d, ok := take(&b.user, d, err)
	if !ok {
		return nil
	}
	on, bytes, pairs := ferry.View[float32](d), ferry.View[byte](b.on), ferry.View[[2]float32](b.host)
	return steps(
		func() error { return ferry.Copy(b.s, on, b.host) },
		func() error { return ferry.Copy(b.s, bytes, d) },
		func() error { return ferry.Copy(b.s, b.host.Bytes(), bytes) },
		func() error { return on.Wait(ctx) },
		func() error { _, err := pairs.Range(1, 3).SliceContext(ctx); return err },
		func() error {
			got, err := pairs.ReadSliceContext(ctx)
			if err == nil && (len(got) != n/2 || got[7] != [2]float32{b.host.Slice()[14], b.host.Slice()[15]}) {
				err = errors.New("wrong data in a view")
			}
			return err
		},
		func() error { _, _ = pairs.Slice(), pairs.ReadSlice(); return nil },
		func() error { return same(b.host.Slice(), 0) })
}

func boxes(ctx context.Context, g *ferry.GPU, b *base) error {
	d, err := ferry.Alloc[float32](g, 2*n)
	d, ok := take(&b.user, d, err)
	if !ok {
		return nil
	}
	words := make([]float32, n)
	host := ferry.Rect[float32]{Memory: b.host, Width: 16, Height: 16, Depth: n / 256}
	on := ferry.Rect[float32]{Memory: b.on, Width: 16, Height: 16, Depth: n / 256}
	wide := ferry.Rect[float32]{Memory: d, Width: 16, Height: 16, Depth: n / 256, Pitch: 32}
	pageable := ferry.Rect[float32]{Memory: ferry.Pageable(words), Width: 16, Height: 16, Depth: n / 256}
	var list ferry.Batch
	return steps(
		func() error { return ferry.CopyRect(&list, wide, host) },
		func() error { return b.s.Submit(&list) },
		func() error { return ferry.CopyRect(b.s, on, wide) },
		func() error { return ferry.CopyRect(b.s, pageable, on) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(words, 0) })
}

// peer copies to memory of the next device and back. It is the same device if there is one.
func peer(ctx context.Context, g *ferry.GPU, b *base) error {
	count, err := g.Driver().DeviceGetCount()
	if err != nil {
		return err
	}
	other, err := ferry.OpenDriver(g.Driver(), (int(g.CUDevice())+1)%int(count))
	other, ok := take(&b.user, other, err)
	if !ok {
		return nil
	}
	there, err := ferry.Alloc[float32](other, n)
	if there, ok = take(&b.user, there, err); !ok {
		return nil
	}
	return steps(
		func() error {
			can, err := g.CanAccessPeer(other)
			if can {
				err = g.EnablePeer(other)
			}
			return err
		},
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return ferry.Copy(b.s, there, b.on) },
		func() error { return ferry.Fill(b.s, b.on, 0) },
		func() error {
			return ferry.CopyRect(b.s, ferry.Rect[float32]{Memory: b.on, Width: n / 4, Height: 4}, ferry.Rect[float32]{Memory: there, Width: n / 4, Height: 4})
		},
		func() error { return ferry.Copy(b.s, b.host, b.on) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 0) })
}

// parts fills memory of two devices from a source, each range once by the host and once from the
// first memory, and writes it.
func parts(ctx context.Context, g *ferry.GPU, b *base) error {
	count, err := g.Driver().DeviceGetCount()
	if err != nil {
		return err
	}
	other, err := ferry.OpenDriver(g.Driver(), (int(g.CUDevice())+1)%int(count))
	other, ok := take(&b.user, other, err)
	if !ok {
		return nil
	}
	there, err := ferry.Alloc[byte](other, 4*n)
	if there, ok = take(&b.user, there, err); !ok {
		return nil
	}
	text := bytes.Repeat([]byte{7, 8, 9, 10}, n)
	here, host := ferry.View[byte](b.on), ferry.View[byte](b.host)
	var list []ferry.ReadPart
	for i := range 4 {
		p := ferry.ReadPart{Src: bytes.NewReader(text), Off: int64(i * n), Dst: here.Range(i*n, (i+1)*n)}
		switch i {
		case 0:
			p.Dst = host.Range(0, n)
		case 1:
			p.Also = []ferry.Memory[byte]{there.Range(i*n, (i+1)*n)}
		case 2:
			p.Also = []ferry.Memory[byte]{there.Range(i*n, (i+1)*n), here.Range(0, n)}
		}
		list = append(list, p)
	}
	memory := []ferry.Memory[byte]{host.Range(0, n), here.Range(n, 4*n), there.Range(n, 3*n), here.Range(0, n)}
	want := slices.Concat(text, text[n:3*n], text[2*n:3*n])
	var out bytes.Buffer
	return steps(
		func() error { return g.Staging().Warm(ctx) },
		func() error {
			s, err := g.Staging().Stats()
			return errors.Join(err, g.Staging().SetLimit(s.SlotBytes)) // frees most slots
		},
		func() error {
			can, err := g.CanAccessPeer(other)
			if can {
				err = g.EnablePeer(other)
			}
			return err
		},
		func() error { _, err := ferry.CopyParts(ctx, b.s, list, nil); return err },
		func() error { _, err := ferry.CopyPartsTo(ctx, b.s, &out, memory, nil); return err },
		func() error {
			if !bytes.Equal(out.Bytes(), want) {
				return errors.New("wrong data: other bytes were written than read")
			}
			return nil
		})
}

func batchEvents(ctx context.Context, g *ferry.GPU, b *base) error {
	e, err := ferry.NewEvent(g, nil)
	e, ok := take(&b.user, e, err)
	if !ok {
		return nil
	}
	var list ferry.Batch
	return steps(
		func() error { return ferry.Copy(&list, b.on, b.host) },
		func() error { return list.Record(e) },
		func() error { return list.WaitEvent(e) },
		func() error { return ferry.Copy(&list, b.host, b.on) },
		func() error { return b.s.Submit(&list) },
		func() error { return e.Wait(ctx) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 0) })
}

func attached(ctx context.Context, g *ferry.GPU, b *base) error {
	m, err := ferry.AllocManaged[float32](g, n, nil)
	if m, ok := take(&b.user, m, err); ok {
		return steps(
			func() error { return m.Attach(b.s, cu.MemAttachSingle) },
			func() error { return ferry.Copy(b.s, m, b.host) },
			func() error { words, err := m.SliceContext(ctx); return errors.Join(err, check(words)) },
			func() error { words, err := m.ReadSliceContext(ctx); return errors.Join(err, check(words)) })
	}
	return nil
}

func waits(ctx context.Context, g *ferry.GPU, b *base) error {
	return steps(
		func() error { _, err := g.Attribute(cu.DeviceAttributeMultiprocessorCount); return err },
		func() error { _, err := bridge.PredictPin(g, 1<<16, nil); return err },
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return b.on.Wait(ctx) },
		func() error { return ferry.Copy(b.s, b.host, b.on) },
		func() error { return b.host.Wait(ctx) },
		func() error { return same(b.host.ReadSlice(), 0) })
}

func defaultPool(ctx context.Context, g *ferry.GPU, b *base) error {
	return throughPool(ctx, b, g.DefaultMemPool())
}

func external(ctx context.Context, g *ferry.GPU, b *base) error {
	there, err := ferry.Alloc[float32](g, n)
	if there, ok := take(&b.user, there, err); ok {
		move := func(dst, src *ferry.Device[float32]) func(h cu.Stream) error {
			return func(h cu.Stream) error {
				return g.Driver().MemcpyDtoDAsync(g.CUContext(), dst.Pointer(), src.Pointer(), uintptr(src.Size()), h)
			}
		}
		return steps(
			func() error { return ferry.Copy(b.s, b.on, b.host) },
			func() error { return b.s.External(move(there, b.on), ferry.Writes(there), ferry.Reads(b.on)) },
			func() error { return ferry.Fill(b.s, b.on, 0) },
			func() error { return b.s.ExternalPerThread(move(b.on, there), ferry.Writes(b.on), ferry.Reads(there)) },
			func() error { return externalLaunches(g, b) },
			func() error { return ferry.Copy(b.s, b.host, b.on) },
			func() error { return g.Current(func() error { return b.s.Wait(ctx) }) },
			func() error { return same(b.host.Slice(), 0) })
	}
	return nil
}

// externalLaunches lets external work launch a kernel and a graph, which changes nothing.
func externalLaunches(g *ferry.GPU, b *base) error {
	k, ok := increment(g, &b.user)
	if !ok {
		return nil
	}
	x, err := b.s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, b.host, b.on) })
	if x, ok := take(&b.user, x, err); ok {
		return b.s.External(func(h cu.Stream) error {
			params := binary.NativeEndian.AppendUint64(nil, uint64(b.on.Pointer()))
			err := g.Driver().LaunchKernel(g.CUContext(), k.Handle(), cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, h, append(params, make([]byte, 8)...))
			return errors.Join(err, g.Driver().GraphLaunch(g.CUContext(), x.Handle(), h))
		}, ferry.Runs(k), ferry.Runs(x), ferry.Writes(b.on))
	}
	return nil
}
