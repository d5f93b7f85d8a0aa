package explain

// What a program can do whose transfers package pipeline makes. "" is nothing: the pipeline already
// does what it can with these ends.

func largerChunks(*group) string {
	return "let the chunks of the pipeline be larger: ChunkLen, or 0 for Ferry's choice"
}

func moreChunks(g *group) string {
	if g.on.computeStreams() > 1 {
		return ""
	}
	return "let several chunks of the pipeline be in flight: leave Depth at 0, and ChunkLen at 0 or below a third of the elements"
}

func ownMemory(g *group) string {
	do := moreChunks(g)
	if do == "" && g.staged() {
		return "the CPU moves the data of slices, readers and writers: give the pipeline memory of ferry.AllocHost or ferry.Register, " +
			"if the program can have its data there"
	}
	return do
}

// computeStreams returns the number of streams with kernels. A pipeline has one for each chunk in
// flight.
func (l *timeline) computeStreams() int {
	streams := map[int]bool{}
	for _, t := range l.ops {
		if t.Engine == "compute" {
			streams[t.Stream] = true
		}
	}
	return len(streams)
}

// staged reports whether the host memory of the transfers is memory that the pipeline has taken.
func (g *group) staged() bool {
	for _, x := range g.losses {
		at := x.t.call.Address
		if x.t.in() {
			at = x.t.call.Source
		}
		for _, a := range g.on.memory.holding(at) {
			if a.during(x.t.call) && a.kind != device {
				return g.on.rec.Sites[a.call.Site].Pipeline
			}
		}
	}
	return false
}
