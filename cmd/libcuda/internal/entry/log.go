package entry

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// logVariable is the environment variable of CUDA 12.9 and later that names where the driver writes
// what its errors mean: "stdout", "stderr" or a file.
const logVariable = "CUDA_LOG_FILE"

// logWriter is where the texts of errors go, nil for nowhere.
var logWriter = sync.OnceValue(func() io.Writer {
	switch name := secureenv.Get(logVariable); name {
	case "":
		return nil
	case "stdout":
		return printed{}
	case "stderr":
		return os.Stderr
	default:
		file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintf(os.Stderr, "ferry: %s: %s\n", logVariable, printable.Line(err.Error()))
			return nil
		}
		return file
	}
})

// printed writes to the standard output of the program.
type printed struct{}

func (printed) Write(text []byte) (int, error) {
	host.Print(string(text))
	return len(text), nil
}

// logError writes the text of an error in the form that CUDA's manual has:
// [time][thread][source][severity][function] message. The thread is the library's number of it.
func logError(name string, err error) {
	w := logWriter()
	if w == nil || errors.Is(err, cu.ErrorNotReady) {
		return
	}
	fmt.Fprintf(w, "[%s][%d][CUDA][E][%s] %s\n", time.Now().Format("15:04:05.000"), host.Thread(), name, err)
}
