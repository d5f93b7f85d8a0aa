package dlpack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// message says what a descriptor has that goes over a socket. It is text in JSON, after 4 bytes with
// its length, highest first. The descriptor comes with these.
type message struct {
	Type  string  `json:"dtype"`
	Shape []int64 `json:"shape"`
}

// mostText is how long the text of a message can be.
const mostText = 4096

// Send sends a buffer of [ferry.AllocVirtual] with Share to another process over a Unix socket, such
// as a *net.UnixConn: to [Receive], or to the module python/ferry_dlpack.py of this package. shape
// and o are as for [Export], and o may be nil. Nothing is copied: both processes have the memory
// from now on, until each has closed it.
//
// Send waits until nothing is in flight on the buffer, and does not close it. Ferry orders no work of
// two processes: before one uses what the other writes, it must hear that this is done.
func Send[T any](conn syscall.Conn, d *ferry.Device[T], shape []int, o *Options) error {
	const what = "send a buffer"
	if o == nil {
		o = &Options{}
	}
	switch {
	case forked.Child():
		return forked.New(what)
	case conn == nil || reflect.ValueOf(conn).IsZero():
		return refusal.Invalid("%s: no socket given (nil)", what)
	case o.ReadOnly:
		return refusal.Invalid("%s: it cannot be read-only: another process can write all memory that it has", what)
	}
	typ, inner, err := elementType(reflect.TypeFor[T](), o.Type)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	dims, err := shapeOf(d.Len(), shape)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := send(conn, d, message{typ.String(), append(dims, inner...)}); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// send sends a buffer with a message that the receiver takes.
func send[T any](conn syscall.Conn, d *ferry.Device[T], m message) error {
	if _, _, err := m.check(); err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := ferry.Share(d)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := d.Wait(context.Background()); err != nil {
		return err
	}
	return sendFile(conn, text, f)
}

// check returns the type and the number of elements of a message.
func (m *message) check() (typ Type, n int, err error) {
	if len(m.Shape) > maxDims {
		return 0, 0, refusal.Invalid("%d dimensions are more than the %d that a tensor can have", len(m.Shape), maxDims)
	}
	if typ, err = parseType(m.Type); err == nil {
		n, err = elements(m.Shape)
	}
	return typ, n, err
}

// Receive receives what [Send] or the module python/ferry_dlpack.py has sent over a Unix socket. The
// memory of the [Array] is a [ferry.Device] buffer of [ferry.Import]. T is as for [Import].
//
// Nothing that comes is trusted: [ferry.Import] asks the driver what the memory is, and how large.
// After an error the socket can be within a message: close it.
func Receive[T any](g *ferry.GPU, conn syscall.Conn) (*Array[T], error) {
	const what = "receive a buffer"
	if forked.Child() {
		return nil, forked.New(what)
	}
	if conn == nil || reflect.ValueOf(conn).IsZero() {
		return nil, refusal.Invalid("%s: no socket given (nil)", what)
	}
	if _, err := bridge.Label(g, what); err != nil {
		return nil, err
	}
	text, f, err := receiveFile(conn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	a, err := received[T](g, text, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return a, nil
}

// received makes a buffer of a message and its descriptor.
func received[T any](g *ferry.GPU, text []byte, f *os.File) (*Array[T], error) {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, refusal.Invalid("the message says nothing about a tensor: %v", err)
	}
	typ, n, err := m.check()
	if err == nil {
		err = typ.accepts(reflect.TypeFor[T]())
	}
	if err != nil {
		return nil, fmt.Errorf("the message says that it is %s %s: %w", m.Type, dimensions(m.Shape), err)
	}
	d, err := ferry.Import[T](g, f, n)
	if err != nil {
		return nil, err
	}
	return &Array[T]{memory: d, closer: d, shape: ints(m.Shape)}, nil
}
