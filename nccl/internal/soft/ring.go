package soft

import (
	"fmt"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// The order of reduction. The ranks are a ring: 0, 1, 2 ... and again 0.
//
// An all-reduce cuts the elements into as many parts as there are ranks: part p of n elements and r
// ranks is from p*n/r to (p+1)*n/r. Element x of part p is
//
//	((x[p+1] op x[p+2]) op x[p+3]) ... op x[p]
//
// where x[p] is the element of rank p, after its factor. So it is with part p of a reduce-scatter,
// which rank p receives. A reduce to rank p is one such part. Each step rounds to the type. Integers
// wrap, so their sums and products do not depend on the order. The order does not depend on times,
// transports or schedules, so the bits are the same in every run.

// move moves the data of the call.
func (k *call) move() error {
	in, err := k.read()
	if err != nil {
		return err
	}
	out, err := k.algorithm(in)
	if err != nil {
		return err
	}
	return k.write(out)
}

func (k *call) read() ([]byte, error) {
	if k.reads < 0 {
		return nil, nil
	}
	in, err := k.running.Read(k.reads)
	if err != nil {
		return nil, fmt.Errorf("communicator %s, %s: rank %d: %w", k.comm.name, k.title(), k.comm.rank, err)
	}
	return in, nil
}

func (k *call) write(out []byte) error {
	if k.writes < 0 {
		return nil
	}
	if err := k.running.Write(k.writes, 0, out); err != nil {
		return fmt.Errorf("communicator %s, %s: rank %d: %w", k.comm.name, k.title(), k.comm.rank, err)
	}
	return nil
}

// algorithm returns what the rank writes, from what it has read. It may change the latter.
func (k *call) algorithm(in []byte) ([]byte, error) {
	c := k.comm
	switch k.Kind {
	case backend.AllReduce:
		return k.allReduce(in)
	case backend.ReduceScatter:
		return k.reduceScatter(in)
	case backend.AllGather:
		return k.allGather(in)
	case backend.Reduce:
		return k.reduce(in)
	case backend.Broadcast:
		return k.broadcast(in)
	case backend.AllToAll:
		return k.allToAll(in)
	case backend.Gather:
		return k.gather(in)
	case backend.Scatter:
		return k.scatter(in)
	case backend.Send:
		return nil, k.send(k.Peer, 0, in)
	case backend.Recv:
		return k.recv(k.Peer, 0, k.Count*k.Type.Size())
	}
	panic(fmt.Sprintf("BUG: communicator %s: kind %d", c.name, k.Kind))
}

// ring is the neighbours of a rank, and its steps.
type ring struct {
	k          *call
	prev, next int
	step       int // the step of the next message
	sent       int
}

func (k *call) ring() *ring {
	n := k.comm.size
	return &ring{k: k, prev: (k.comm.rank + n - 1) % n, next: (k.comm.rank + 1) % n}
}

func (r *ring) send(data []byte) error {
	r.sent++
	return r.k.send(r.next, r.sent, data)
}

func (r *ring) recv(bytes int) ([]byte, error) {
	r.step++
	return r.k.recv(r.prev, r.step, bytes)
}

// parts cuts elements of a size into parts for n ranks.
func parts(data []byte, size, n int) [][]byte {
	count := len(data) / size
	list := make([][]byte, n)
	for p := range list {
		list[p] = data[p*count/n*size : (p+1)*count/n*size]
	}
	return list
}

// before returns the rank that is i ranks before this one.
func (k *call) before(i int) int { return (k.comm.rank + k.comm.size - i%k.comm.size) % k.comm.size }

// reduceParts lets the parts go around the ring. In the end the rank has part number rank, reduced.
func (r *ring) reduceParts(list [][]byte, math *arithmetic) error {
	k, n := r.k, len(list)
	for j := 1; j < n; j++ {
		if err := r.send(list[k.before(j)]); err != nil {
			return err
		}
		to := list[k.before(j+1)]
		got, err := r.recv(len(to))
		if err != nil {
			return err
		}
		if err := math.add(to, got); err != nil {
			return k.garbled(r.prev, err)
		}
	}
	math.finish(list[k.comm.rank])
	return nil
}

// gatherParts lets the parts go around the ring, of which the rank has the one of its number.
func (r *ring) gatherParts(list [][]byte) error {
	k, n := r.k, len(list)
	for j := range n - 1 {
		if err := r.send(list[k.before(j)]); err != nil {
			return err
		}
		to := list[k.before(j+1)]
		got, err := r.recv(len(to))
		if err != nil {
			return err
		}
		copy(to, got)
	}
	return nil
}

// garbled returns the error of a message that cannot be.
func (k *call) garbled(rank int, err error) error {
	return fmt.Errorf("communicator %s, %s: rank %d got a wrong message from rank %d: %w", k.comm.name, k.title(), k.comm.rank, rank, err)
}

func (k *call) allReduce(in []byte) ([]byte, error) {
	math := k.arithmetic()
	math.begin(in)
	r, list := k.ring(), parts(in, k.Type.Size(), k.comm.size)
	if err := r.reduceParts(list, math); err != nil {
		return nil, err
	}
	return in, r.gatherParts(list)
}

func (k *call) reduceScatter(in []byte) ([]byte, error) {
	math := k.arithmetic()
	math.begin(in)
	list := parts(in, k.Type.Size(), k.comm.size)
	err := k.ring().reduceParts(list, math)
	return list[k.comm.rank], err
}

func (k *call) allGather(in []byte) ([]byte, error) {
	out := make([]byte, len(in)*k.comm.size)
	list := parts(out, k.Type.Size(), k.comm.size)
	copy(list[k.comm.rank], in)
	return out, k.ring().gatherParts(list)
}

// reduce begins at the rank after the root, and ends at the root.
func (k *call) reduce(in []byte) ([]byte, error) {
	math, r := k.arithmetic(), k.ring()
	math.begin(in)
	if k.comm.size > 1 && k.comm.rank != (k.Peer+1)%k.comm.size {
		got, err := r.recv(len(in))
		if err != nil {
			return nil, err
		}
		if err := math.add(in, got); err != nil {
			return nil, k.garbled(r.prev, err)
		}
	}
	if k.comm.rank != k.Peer {
		return nil, r.send(in)
	}
	math.finish(in)
	return in, nil
}

// broadcast begins at the root, and ends at the rank before it.
func (k *call) broadcast(in []byte) (out []byte, err error) {
	r := k.ring()
	if k.comm.rank != k.Peer {
		if in, err = r.recv(k.Count * k.Type.Size()); err != nil {
			return nil, err
		}
	}
	if r.next != k.Peer {
		err = r.send(in)
	}
	return in, err
}

func (k *call) allToAll(in []byte) ([]byte, error) {
	n := k.comm.size
	from, out := parts(in, k.Type.Size(), n), make([]byte, len(in))
	for i := range n {
		to := (k.comm.rank + i) % n
		if err := k.send(to, 0, from[to]); err != nil {
			return nil, err
		}
	}
	return out, k.collect(parts(out, k.Type.Size(), n))
}

// collect receives a part from each rank.
func (k *call) collect(list [][]byte) error {
	for rank, to := range list {
		got, err := k.recv(rank, 0, len(to))
		if err != nil {
			return err
		}
		copy(to, got)
	}
	return nil
}

func (k *call) gather(in []byte) ([]byte, error) {
	if err := k.send(k.Peer, 0, in); err != nil || k.comm.rank != k.Peer {
		return nil, err
	}
	out := make([]byte, len(in)*k.comm.size)
	return out, k.collect(parts(out, k.Type.Size(), k.comm.size))
}

func (k *call) scatter(in []byte) ([]byte, error) {
	if k.comm.rank == k.Peer {
		for rank, part := range parts(in, k.Type.Size(), k.comm.size) {
			if err := k.send(rank, 0, part); err != nil {
				return nil, err
			}
		}
	}
	return k.recv(k.Peer, 0, k.Count*k.Type.Size())
}
