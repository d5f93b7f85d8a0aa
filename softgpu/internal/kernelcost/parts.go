package kernelcost

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// part is one of the parts of a kernel's time.
type part int

// The parts. Those from partMemory to partScattered run at once.
const (
	partLaunch    part = iota // the floor of any kernel, and the start of its blocks
	partMemory                // device memory and the second-level cache
	partLink                  // the link's busier direction
	partCompute               // instructions
	partLookups               // the first-level caches
	partAtomics               // atomic operations on the busiest slice or line
	partScattered             // stores to the busiest line
	partLatency               // of the first answer over the link
	partChain                 // the longest chain of waits of a warp
	partClock                 // the time that the kernel saw on a clock
	partFaults                // faults on managed pages
	numParts
)

var partNames = [numParts]string{"launch", "device memory", "link", "instructions", "cache lookups", "atomics", "scattered stores", "link latency", "chain of waits", "clock", "page faults"}

// Parts is the time of a kernel by parts, in nanoseconds.
type Parts struct {
	ns     [numParts]float64
	first  float64 // start of the blocks of the first wave
	blocks float64 // start of all blocks
}

// parts returns the parts of the kernel's time.
func (k *kernel) parts() (p Parts) {
	s, prof := k.run.Stats, &k.dev.prof.Kernel
	p.ns[partMemory] = k.memoryNs()
	p.ns[partLink], p.ns[partLatency] = k.linkNs()
	if k.dev.attr(cu.DeviceAttributeIntegrated) != 0 { // host memory is the device's own memory
		p.ns[partMemory] += k.in + k.out
		k.in, k.out = 0, 0
	}
	p.ns[partCompute] = k.instructionNs()
	p.ns[partLookups] = k.lookupNs()
	p.ns[partAtomics] = k.atomicNs()
	p.ns[partScattered] = k.scatterNs()
	if p.ns[partLatency] > 0 {
		p.ns[partLatency] += k.tailNs()
	}
	p.ns[partChain] = k.chainNs()
	p.ns[partClock] = float64(s.Nap) // it must not take less time than it saw on a clock
	p.ns[partFaults] = k.run.FaultNs
	p.ns[partLaunch] = prof.Floor.Value
	p.blocks = float64(s.Blocks) * prof.Block.Value
	p.first = min(p.blocks, float64(k.l.Resident())*prof.Block.Value)
	return p
}

// busy returns the longest of the parts that run at once.
func (p *Parts) busy() float64 {
	longest := 0.0
	for i := partMemory; i <= partScattered; i++ {
		longest = max(longest, p.ns[i])
	}
	return longest
}

// Total returns the time of the kernel. The blocks of later waves start while others run.
func (p *Parts) Total() float64 {
	longest := max(p.first+p.busy(), p.blocks) + p.ns[partLatency]
	return p.ns[partLaunch] + max(longest, p.ns[partChain], p.ns[partClock]) + p.ns[partFaults]
}

// longestPart is the longest time of a part in List, in nanoseconds.
const longestPart = 1e18

// List returns the parts that take time, for observers.
func (p *Parts) List() (out []cu.KernelPart) {
	for i, ns := range p.ns {
		if part(i) == partLaunch {
			ns += p.blocks
		}
		if ns > 0 {
			out = append(out, cu.KernelPart{Name: partNames[i], Time: time.Duration(min(ns, longestPart))})
		}
	}
	return out
}
