package ranks

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	mostLine = 1 << 20 // bytes of a line that is kept whole
	mostKept = 1 << 16 // bytes of lines that are written at once

	// leftOpen is how long the output of a rank that has ended is read, if another process keeps
	// it open and writes nothing.
	leftOpen = 200 * time.Millisecond
)

// outputs are where all ranks write.
type outputs struct {
	stdout, stderr io.Writer
	failed         func() // called when an output takes nothing more

	mu    sync.Mutex // also taken to write, so that lines stay whole
	first error
}

// write writes whole lines. After an error nothing is written.
func (o *outputs) write(w io.Writer, lines []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first != nil {
		return
	}
	if _, o.first = w.Write(lines); o.first != nil {
		o.failed()
	}
}

// err returns the first error of an output.
func (o *outputs) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}

// stream is an output of a rank, on its way to that of this process.
type stream struct {
	in   *os.File // where the rank writes
	from *os.File
	done chan struct{}
}

// open returns a stream of a rank.
func (o *outputs) open(rank int, to io.Writer) (*stream, error) {
	from, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &stream{in: in, from: from, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		prefixed(&pipe{from: from}, fmt.Sprintf("[%d] ", rank), func(lines []byte) { o.write(to, lines) })
	}()
	return s, nil
}

// close returns when all that the rank has written is written. The rank has ended.
func (s *stream) close() {
	s.in.Close()
	_ = s.from.SetReadDeadline(time.Now().Add(leftOpen))
	<-s.done
	s.from.Close()
}

// pipe reads what a rank writes. After the deadline, which is set when the rank has ended, it reads
// what is still there.
type pipe struct{ from *os.File }

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = p.from.SetReadDeadline(time.Now().Add(leftOpen))
		n, err = p.from.Read(b)
	}
	return n, err
}

// prefixed writes each line of r with a prefix. A last line without an end gets one. A line that is
// too long becomes several.
func prefixed(r io.Reader, prefix string, write func([]byte)) {
	in := bufio.NewReaderSize(r, 32<<10)
	var lines bytes.Buffer // that are whole and not written
	var line []byte        // that has begun
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		full := errors.Is(err, bufio.ErrBufferFull)
		if len(line) > 0 && (!full || len(line) >= mostLine) {
			lines.WriteString(prefix)
			lines.Write(bytes.TrimSuffix(line, []byte("\n")))
			lines.WriteByte('\n')
			line = line[:0]
		}
		last := err != nil && !full
		if lines.Len() > 0 && (last || in.Buffered() == 0 || lines.Len() >= mostKept) {
			write(lines.Bytes())
			lines.Reset()
		}
		if last {
			return
		}
	}
}
