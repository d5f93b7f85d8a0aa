// Command preempt collects garbage while a goroutine runs a loop without calls, which its Go runtime
// interrupts by a signal. The Go runtime in the library uses the same signal.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/libcuda"
)

var sink int

func main() {
	d, err := libcuda.Open()
	if err == nil {
		err = d.Init(0)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		for i := 0; ; i++ {
			sink = i
		}
	}()
	time.Sleep(100 * time.Millisecond)
	runtime.GC()
	fmt.Println("collected")
}
