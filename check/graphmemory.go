package check

import "slices"

// graphMemory is memory that graphs allocate and free. It is dead between the free and the next
// launch of the graph that allocates it.
type graphMemory struct {
	made  []*memory
	freed []*memory // by nodes: of this graph or of another one
}

// freesInGraph notes that a node of the capture frees memory. Within the capture, and after it if
// the graph allocates the memory, later work must not use it. The caller holds mu.
func (p *capture) freesInGraph(m *memory, c *call) {
	p.memory.freed = append(p.memory.freed, m)
	if slices.Contains(p.memory.made, m) {
		m.ends(c)
	}
}

// ends notes that memory of a graph is freed, until a launch allocates it again.
func (m *memory) ends(c *call) { m.dead, m.freed, m.freedBy = true, c.site, c.name }

// launched notes what a launch has allocated and freed. The caller holds mu.
func (g *graphMemory) launched(c *call) {
	for _, m := range g.made {
		m.dead = slices.Contains(g.freed, m)
	}
	for _, m := range g.freed {
		if !slices.Contains(g.made, m) {
			m.ends(c)
		}
	}
}
