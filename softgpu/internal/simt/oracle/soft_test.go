package oracle

import (
	"context"
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// memory is the address space of a launch: inputs, outputs, cells and constants.
type memory []*simt.Segment

func (m memory) Find(addr uint64) *simt.Segment {
	for _, s := range m {
		if addr-s.Base < uint64(len(s.Data)) {
			return s
		}
	}
	return nil
}

const (
	inAt    = 1 << 40
	outAt   = 2 << 40
	cellAt  = 3 << 40
	constAt = 4 << 40
)

// argument returns what kernels find in their last parameter.
func argument() []byte {
	out := make([]byte, 32)
	for i := range out {
		out[i] = byte(i*37 + 120)
	}
	return out
}

// poison fills the outputs beforehand, so that a form that writes too little is
// noticed.
const poison = 0xa5

func poisoned(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = poison
	}
	return out
}

var tableBytes = func() []byte {
	out, _ := binary.Append(nil, binary.LittleEndian, table())
	return out
}()

// runSoft runs a kernel on simt.
func runSoft(k *kernel) ([]byte, error) {
	m, err := ptx.Parse(k.form.text, head+k.decl+k.source("k"))
	if err != nil {
		return nil, err
	}
	constant := make([]byte, 64)
	for _, v := range m.Vars {
		copy(constant, v.Init)
	}
	p, err := simt.Link(m, func(string) (uint64, bool) { return constAt, true })
	if err != nil {
		return nil, err
	}
	out := poisoned(threads * outBytes)
	mem := memory{
		{Base: inAt, Data: tableBytes, ReadOnly: true}, {Base: outAt, Data: out},
		{Base: cellAt, Data: make([]byte, threads*cellBytes+1<<18)}, {Base: constAt, Data: constant, ReadOnly: true},
	}
	params, _ := binary.Append(nil, binary.LittleEndian, []uint64{inAt, outAt, cellAt})
	params = append(append(params, make([]byte, 8)...), argument()...)
	_, err = simt.Run(context.Background(), &simt.Launch{
		Kernel: p.Kernel("k"), Grid: cu.Dim3{X: threads / block, Y: 1, Z: 1}, Block: cu.Dim3{X: block, Y: 1, Z: 1}, Params: params, Memory: mem, Workers: 1, Counters: 1,
	})
	return out, err
}
