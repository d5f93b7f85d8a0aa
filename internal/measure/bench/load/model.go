package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// tensor is one tensor of a file: a name, a shape of bf16 values, and the bytes from off to off+bytes
// of the data.
type tensor struct {
	name       string
	shape      []int
	off, bytes int64
}

// model is what a file holds, in the order of the file.
type model struct {
	tensors []tensor
	bytes   int64
}

// sizes describe a model like Llama 3 8B, whose width is 4096 and which has 32 layers.
type sizes struct{ layers, width int }

// llama returns the tensors of a model: 2 + 7*layers matrices and 1 + 2*layers vectors, shuffled.
func llama(s sizes, r *rand.Rand) *model {
	w := s.width
	kv, ffn, vocabulary := w/4, w*7/2, w*128256/4096
	m := new(model)
	m.add("model.embed_tokens.weight", vocabulary, w)
	m.add("lm_head.weight", vocabulary, w)
	m.add("model.norm.weight", w)
	for i := range s.layers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		m.add(layer+"self_attn.q_proj.weight", w, w)
		m.add(layer+"self_attn.k_proj.weight", kv, w)
		m.add(layer+"self_attn.v_proj.weight", kv, w)
		m.add(layer+"self_attn.o_proj.weight", w, w)
		m.add(layer+"mlp.gate_proj.weight", ffn, w)
		m.add(layer+"mlp.up_proj.weight", ffn, w)
		m.add(layer+"mlp.down_proj.weight", w, ffn)
		m.add(layer+"input_layernorm.weight", w)
		m.add(layer+"post_attention_layernorm.weight", w)
	}
	return m.shuffle(r)
}

// small returns n vectors of 4 KiB, shuffled.
func small(n int, r *rand.Rand) *model {
	m := new(model)
	for i := range n {
		m.add(fmt.Sprintf("experts.%06d.scale", i), 2048)
	}
	return m.shuffle(r)
}

func (m *model) add(name string, shape ...int) {
	bytes := int64(2)
	for _, n := range shape {
		bytes *= int64(n)
	}
	m.tensors = append(m.tensors, tensor{name: name, shape: shape, bytes: bytes})
}

// shuffle gives the tensors a random order in the file, and their places.
func (m *model) shuffle(r *rand.Rand) *model {
	r.Shuffle(len(m.tensors), func(i, k int) { m.tensors[i], m.tensors[k] = m.tensors[k], m.tensors[i] })
	for i := range m.tensors {
		m.tensors[i].off = m.bytes
		m.bytes += m.tensors[i].bytes
	}
	return m
}

// header returns what a safetensors file of the model begins with: the length, the JSON, and spaces
// up to a multiple of 8. Its order is not that of the data.
func (m *model) header(r *rand.Rand) ([]byte, error) {
	out := []byte{0, 0, 0, 0, 0, 0, 0, 0}
	for n, i := range r.Perm(len(m.tensors)) {
		t := m.tensors[i]
		entry, err := json.Marshal(struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{"BF16", t.shape, [2]int64{t.off, t.off + t.bytes}})
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "%c%q:%s", "{,"[min(n, 1)], t.name, entry)
	}
	out = append(out, '}')
	for len(out)%8 != 0 {
		out = append(out, ' ')
	}
	binary.LittleEndian.PutUint64(out, uint64(len(out)-8))
	return out, nil
}

// modelFile is a file with a model.
type modelFile struct {
	*model
	path string
	data int64 // where the data begins
}

// write makes a file of the model, with bytes that depend on the seed. A file of a disk is written
// to the disk, and leaves the page cache. Beside it stands a list for programs without a parser:
// lines with the offset in the file and the bytes of each tensor.
func (m *model) write(path string, seed uint64, disk bool) (f *modelFile, err error) {
	header, err := m.header(rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		return nil, err
	}
	out, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.Write(header); err != nil {
		return nil, err
	}
	f = &modelFile{m, path, int64(len(header))}
	if err := f.fill(out, seed); err != nil {
		return nil, err
	}
	if disk {
		err = errors.Join(out.Sync(), dropCache(out))
	}
	return f, errors.Join(err, f.writeList())
}

const fillBlock = 8 << 20 // bytes that a worker writes at once

// fill writes the data, with all CPUs.
func (f *modelFile) fill(out *os.File, seed uint64) error {
	blocks := int((f.bytes + fillBlock - 1) / fillBlock)
	return together(blocks, func(block []byte, i int) error {
		off := int64(i) * fillBlock
		part := block[:min(fillBlock, f.bytes-off)]
		random(part, seed, off)
		_, err := out.WriteAt(part, f.data+off)
		return err
	})
}

// together calls work for 0 to n-1, with a block of memory for each of its goroutines, one for
// each CPU.
func together(n int, work func(block []byte, i int) error) error {
	cpus := runtime.GOMAXPROCS(0)
	failed := make([]error, cpus)
	var next atomic.Int64
	var all sync.WaitGroup
	for w := range cpus {
		all.Go(func() {
			block := make([]byte, fillBlock)
			for i := int(next.Add(1)) - 1; i < n && failed[w] == nil; i = int(next.Add(1)) - 1 {
				failed[w] = work(block, i)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// random fills p with the bytes that begin at off of the sequence of a seed.
func random(p []byte, seed uint64, off int64) {
	word := seed<<40 + uint64(off)/8
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, mix(word))
		p, word = p[8:], word+1
	}
	for i := range p {
		p[i] = byte(mix(word) >> (8 * i))
	}
}

// mix is the last step of splitmix64, after a multiplication that separates neighbours.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// writeList writes the list of the tensors beside the file.
func (f *modelFile) writeList() error {
	var b strings.Builder
	for _, t := range f.tensors {
		fmt.Fprintf(&b, "%d %d\n", f.data+t.off, t.bytes)
	}
	return os.WriteFile(f.path+".list", []byte(b.String()), 0o600)
}
