package dlpack

import (
	"encoding/binary"
	"io"
	"os"
	"syscall"

	"github.com/ferrygpu/ferry/internal/refusal"
)

// sendFile sends a text and a descriptor.
func sendFile(conn syscall.Conn, text []byte, f *os.File) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	file, err := f.SyscallConn()
	if err != nil {
		return err
	}
	data := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	var failed error
	err = file.Control(func(fd uintptr) { failed = sendAll(raw, data, syscall.UnixRights(int(fd))) })
	if err != nil {
		return err
	}
	return failed
}

// sendAll sends data, with what belongs to its first byte.
func sendAll(raw syscall.RawConn, data, rights []byte) error {
	for len(data) > 0 {
		n, failed := 0, error(nil)
		err := raw.Write(func(fd uintptr) bool {
			failed = uninterrupted(func() (err error) {
				n, err = syscall.SendmsgN(int(fd), data, rights, nil, syscall.MSG_NOSIGNAL)
				return err
			})
			return failed != syscall.EAGAIN
		})
		if err != nil {
			return err
		}
		if failed != nil {
			return os.NewSyscallError("sendmsg", failed)
		}
		data, rights = data[n:], nil
	}
	return nil
}

// uninterrupted makes a call of the system until no signal interrupts it.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// receiveFile receives a text and its descriptor.
func receiveFile(conn syscall.Conn) (text []byte, f *os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var fds []int
	defer func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}()
	header := make([]byte, 4)
	if err := receiveAll(raw, header, &fds); err != nil {
		return nil, nil, err
	}
	n := binary.BigEndian.Uint32(header)
	if n > mostText {
		return nil, nil, refusal.Invalid("a message of %d bytes is too long: that of a tensor has at most %d", n, mostText)
	}
	text = make([]byte, n)
	if err := receiveAll(raw, text, &fds); err != nil {
		return nil, nil, unexpected(err)
	}
	if len(fds) != 1 {
		return nil, nil, refusal.Invalid("the message came with %d descriptors, and a tensor has 1", len(fds))
	}
	f = os.NewFile(uintptr(fds[0]), "received memory")
	fds = nil
	return text, f, nil
}

// receiveAll fills data, and collects the descriptors that come with it.
func receiveAll(raw syscall.RawConn, data []byte, fds *[]int) error {
	rights := make([]byte, syscall.CmsgSpace(16))
	for got := 0; got < len(data); {
		n, rn, failed := 0, 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			failed = uninterrupted(func() (err error) {
				n, rn, _, _, err = syscall.Recvmsg(int(fd), data[got:], rights, syscall.MSG_CMSG_CLOEXEC)
				return err
			})
			return failed != syscall.EAGAIN
		})
		if err != nil {
			return err
		}
		if failed != nil {
			return os.NewSyscallError("recvmsg", failed)
		}
		if err := collect(rights[:rn], fds); err != nil {
			return err
		}
		if n == 0 && got == 0 {
			return io.EOF
		} else if n == 0 {
			return io.ErrUnexpectedEOF
		}
		got += n
	}
	return nil
}

// collect adds the descriptors of a control message.
func collect(rights []byte, fds *[]int) error {
	all, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return os.NewSyscallError("recvmsg", err)
	}
	for i := range all {
		if more, err := syscall.ParseUnixRights(&all[i]); err == nil {
			*fds = append(*fds, more...)
		}
	}
	return nil
}

// unexpected is the error for an end of the socket within a message.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
