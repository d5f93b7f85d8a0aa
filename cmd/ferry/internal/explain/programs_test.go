package explain

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// program is a small program that is recorded on the software GPU.
type program struct {
	testing.TB
	g *ferry.GPU
}

// machine returns a profile with changes.
func machine(t testing.TB, name string, change func(*profile.Profile)) *profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	own := *p
	own.Attributes = maps.Clone(p.Attributes)
	if change != nil {
		change(&own)
	}
	return &own
}

// record runs a program and returns its recording.
func record(t testing.TB, p *profile.Profile, run func(*program)) *trace.Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.json")
	r, err := trace.Start(&trace.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	d, err := softgpu.Open(softgpu.Options{Profile: p, Schedule: softgpu.Eager})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(r.Wrap(d), 0)
	if err != nil {
		t.Fatal(err)
	}
	run(&program{t, g})
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func (p *program) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func must[T any](p *program, v T, err error) T {
	p.Helper()
	p.ok(err)
	return v
}

func (p *program) host(words int) *ferry.Host[uint32] {
	h, err := ferry.AllocHost[uint32](p.g, words, nil)
	must(p, h, err)
	return h
}

func (p *program) device(words int) *ferry.Device[uint32] {
	d, err := ferry.Alloc[uint32](p.g, words)
	return must(p, d, err)
}

func (p *program) stream() *ferry.Stream {
	s, err := ferry.NewStream(p.g, nil)
	return must(p, s, err)
}

// kernel returns a kernel that writes memory several times, so that it takes about as long
// as a copy of the memory.
func (p *program) kernel() func(s *ferry.Stream, d *ferry.Device[uint32]) {
	m, err := ferry.Load(p.g, []byte(kernelsPTX), nil)
	k, err2 := must(p, m, err).Kernel("write")
	must(p, k, err2)
	return func(s *ferry.Stream, d *ferry.Device[uint32]) {
		p.ok(s.Launch(k, ferry.Cover(32, 32), d, uint64(d.Len()/4), uint32(1)))
	}
}

func (p *program) wait(s *ferry.Stream) { p.ok(s.Wait(p.Context())) }

const chunk = 1 << 20 // words

// once copies in, runs kernels and copies out.
func once(p *program) {
	h, d, s, k := p.host(4*chunk), p.device(4*chunk), p.stream(), p.kernel()
	p.ok(ferry.Copy(s, d, h))
	for range 5 {
		k(s, d)
	}
	p.ok(ferry.Copy(s, h, d))
	p.wait(s)
}

// overlapped works in chunks on three streams, and waits for a stream before it uses its
// memory again.
func overlapped(p *program) {
	k := p.kernel()
	type lane struct {
		h *ferry.Host[uint32]
		d *ferry.Device[uint32]
		s *ferry.Stream
	}
	var lanes []lane
	for range 3 {
		lanes = append(lanes, lane{p.host(chunk), p.device(chunk), p.stream()})
	}
	for i := range 24 {
		l := lanes[i%3]
		p.wait(l.s)
		p.ok(ferry.Copy(l.s, l.d, l.h))
		k(l.s, l.d)
		p.ok(ferry.Copy(l.s, l.h, l.d))
	}
	for _, l := range lanes {
		p.wait(l.s)
	}
}

// few copies some bytes of pageable memory.
func few(p *program) {
	d, s := p.device(64), p.stream()
	p.ok(ferry.Copy(s, d, ferry.Pageable(make([]uint32, 64))))
	p.wait(s)
}

// fewPageable copies so little that 10 us cannot be lost.
func fewPageable(p *program) {
	d := p.device(chunk)
	p.ok(p.g.Driver().MemcpyHtoD(p.g.CUContext(), d.Pointer(), pointerTo(make([]byte, 96<<10)), 96<<10))
}

// fewBesideMuch copies pageable memory in a program that does much else.
func fewBesideMuch(p *program) {
	overlapped(p)
	d := p.device(chunk)
	p.ok(p.g.Driver().MemcpyHtoD(p.g.CUContext(), d.Pointer(), pointerTo(make([]byte, 256<<10)), 256<<10))
}

// gathered copies several inputs before one kernel, which needs them all.
func gathered(p *program) {
	h, d, s, k := p.host(4*chunk), p.device(4*chunk), p.stream(), p.kernel()
	for i := range 4 {
		p.ok(ferry.Copy(s, d.Range(i*chunk, (i+1)*chunk), h.Range(i*chunk, (i+1)*chunk)))
	}
	k(s, d)
	p.ok(ferry.Copy(s, h, d))
	p.wait(s)
}

// mostlyKernels copies little in each of several rounds.
func mostlyKernels(p *program) {
	h, d, s, k := p.host(chunk), p.device(chunk), p.stream(), p.kernel()
	for range 8 {
		p.ok(ferry.Copy(s, d.Range(0, chunk/16), h.Range(0, chunk/16)))
		k(s, d)
		k(s, d)
	}
	p.wait(s)
}

// manyPageable copies ordinary memory several times.
func manyPageable(p *program) {
	d, from := p.device(chunk), make([]byte, 256<<10)
	for range 8 {
		p.ok(p.g.Driver().MemcpyHtoD(p.g.CUContext(), d.Pointer(), pointerTo(from), 256<<10))
	}
}

// fromPageable copies ordinary memory by the driver.
func fromPageable(p *program) {
	d := p.device(chunk)
	p.ok(p.g.Driver().MemcpyHtoD(p.g.CUContext(), d.Pointer(), pointerTo(make([]byte, 4*chunk)), 4*chunk))
}

// inPieces copies a buffer in many pieces.
func inPieces(p *program) {
	h, d, s := p.host(chunk), p.device(chunk), p.stream()
	const piece = 1024
	for i := 0; i < chunk/4; i += piece {
		p.ok(ferry.Copy(s, d.Range(i, i+piece), h.Range(i, i+piece)))
	}
	p.wait(s)
}

// waitsEachTime waits for each copy before it queues the next.
func waitsEachTime(p *program) {
	h, d, s := p.host(chunk), p.device(chunk), p.stream()
	for i := range 8 {
		part := i * chunk / 8
		p.ok(ferry.Copy(s, d.Range(part, part+chunk/8), h.Range(part, part+chunk/8)))
		p.wait(s)
	}
}

// depthFirst issues all of a stream before the next, for a device with one copy engine.
func depthFirst(p *program) {
	k, h, d := p.kernel(), p.host(4*chunk), p.device(4*chunk)
	streams := []*ferry.Stream{p.stream(), p.stream(), p.stream(), p.stream()}
	for i, s := range streams {
		host, on := h.Range(i*chunk, (i+1)*chunk), d.Range(i*chunk, (i+1)*chunk)
		p.ok(ferry.Copy(s, on, host))
		k(s, on)
		p.ok(ferry.Copy(s, host, on))
	}
	p.ok(p.g.Wait(p.Context()))
}

// smallBehindLarge copies a little in one stream while a large copy is in progress.
func smallBehindLarge(p *program) {
	h, on, d, ctx := p.host(8*chunk), p.device(8*chunk), p.g.Driver(), p.g.CUContext()
	var streams [2]cu.Stream
	for i := range streams {
		s, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
		streams[i] = must(p, s, err)
	}
	words := h.Slice()
	p.ok(d.MemcpyHtoDAsync(ctx, on.Pointer(), cu.HostPtr(&words[0]), 28*chunk, streams[0]))
	p.ok(d.MemcpyHtoDAsync(ctx, on.Pointer(), cu.HostPtr(&words[7*chunk]), 4096, streams[1]))
	p.ok(p.g.Wait(p.Context()))
}

// inOneStream works in chunks, all in one stream.
func inOneStream(p *program) {
	h, d, s, k := p.host(8*chunk), p.device(8*chunk), p.stream(), p.kernel()
	for i := range 8 {
		host, on := h.Range(i*chunk, (i+1)*chunk), d.Range(i*chunk, (i+1)*chunk)
		p.ok(ferry.Copy(s, on, host))
		k(s, on)
		p.ok(ferry.Copy(s, host, on))
	}
	p.wait(s)
}

// oneEngine is a machine with one copy engine.
func oneEngine(p *profile.Profile) {
	p.Attributes["ASYNC_ENGINE_COUNT"] = profile.Number{Value: 1, Source: "test"}
}

// farMemory is a machine whose page-locked memory is slow to reach.
func farMemory(p *profile.Profile) {
	for _, c := range []*profile.Curve{&p.Copy.PinnedHtoD, &p.Copy.PinnedDtoH} {
		points := make([]profile.Point, len(c.Points))
		for i, x := range c.Points {
			points[i] = profile.Point{Bytes: x.Bytes, Ns: 1.4 * x.Ns}
		}
		c.Points = points
	}
}

// onNode sets the nodes of a recording, as hardware has them.
func onNode(rec *trace.Recording, memory, gpu int) *trace.Recording {
	for i := range rec.Calls {
		if kinds[rec.Calls[i].Name] == pageLocked || kinds[rec.Calls[i].Name] == registered {
			rec.Calls[i].Node = memory
		}
	}
	for i := range rec.Devices {
		rec.Devices[i].Node = gpu
	}
	return rec
}

// piped uses package pipeline as it is best.
func piped(p *program) { throughPipeline(p, 16*chunk, 0, 0, true) }

// pipedShort has so little data that its first and last copies count.
func pipedShort(p *program) { throughPipeline(p, chunk, 0, 0, true) }

func oneInFlight(p *program) { throughPipeline(p, 16*chunk, 0, 1, true) }

func smallChunks(p *program) { throughPipeline(p, 16*chunk, chunk/256, 0, true) }

// pipedSlices lets the CPU move the data.
func pipedSlices(p *program) { throughPipeline(p, 16*chunk, 0, 0, false) }

// throughPipeline moves words through package pipeline: chunks of a length, a number of them in
// flight, and ends that are page-locked or slices.
func throughPipeline(p *program, words, chunkLen, depth int, pageLocked bool) {
	m, err := ferry.Load(p.g, []byte(kernelsPTX), nil)
	k, err2 := must(p, m, err).Kernel("write")
	must(p, k, err2)
	end := func() pipeline.End {
		if pageLocked {
			return p.host(words)
		}
		return ferry.Pageable(make([]uint32, words))
	}
	line := pipeline.Pipeline{
		GPU: p.g, In: []pipeline.End{end()}, Out: []pipeline.End{end()}, InPlace: true, ChunkLen: chunkLen, Depth: depth,
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			return s.Launch(k, ferry.Cover(256, 128), c.Out[0], uint64(c.Len/4), uint32(1))
		},
	}
	_, err = line.Run(p.Context())
	p.ok(err)
	p.ok(line.Close())
}
