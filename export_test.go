package ferry

// ByChunk has a pipeline give each chunk a stream for all it does, to compare.
func (p *Pipeline) ByChunk() { p.layout = byChunk }
