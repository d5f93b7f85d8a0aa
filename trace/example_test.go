package trace_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// A program records a driver that it opens itself. Programs that call ferry.Open need no
// change: FERRY_TRACE=recording.json records them.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "recording.json")
	recorder, err := trace.Start(&trace.Options{Path: path})
	if err != nil {
		log.Fatal(err)
	}
	driver, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := ferry.OpenDriver(recorder.Wrap(driver), 0)
	if err != nil {
		log.Fatal(err)
	}
	data, err := ferry.Upload(gpu, make([]float32, 1000))
	if err != nil {
		log.Fatal(err)
	}
	data.Close()
	gpu.Close()
	if err := recorder.Close(); err != nil {
		log.Fatal(err)
	}
	recording, err := trace.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range recording.Operations {
		fmt.Printf("%s, %d bytes from %s memory, %d ns on engine %q\n", o.Name, o.Bytes, o.From, o.End-o.Start, o.Engine)
	}
	// Output:
	// [CUDA memcpy HtoD], 4000 bytes from pageable memory, 1043 ns on engine "copy in"
}

// A program gets each operation when it has ended, with the value of the goroutine that queued it.
func ExampleObserve() {
	trace.Observe(func(f *trace.Finished) {
		if f.Bytes > 0 && !f.IsCall {
			fmt.Printf("%v: %s, %d bytes in %v\n", f.Tag, f.Name, f.Bytes, f.Ended.Sub(f.Began))
		}
	})
	defer trace.Observe(nil)
	gpu, err := ferry.Open("soft") // after Observe
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	end := trace.Tag("request 7")
	defer end()
	data, err := ferry.Upload(gpu, make([]float32, 1000))
	if err != nil {
		log.Fatal(err)
	}
	data.Close()
	// Output:
	// request 7: [CUDA memcpy HtoD], 4000 bytes in 1.043µs
}
