package ferry_test

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
)

// A node of the machine that is not there is found before anything is tried.
func ExamplePinError() {
	gpu, err := ferry.Open("soft")
	if err != nil {
		panic(err)
	}
	defer gpu.Close()
	_, err = ferry.AllocHost[byte](gpu, 8<<30, &ferry.HostOptions{NUMANode: new(7)})
	if told, ok := errors.AsType[*ferry.PinError](err); ok {
		fmt.Println(err)
		fmt.Println("to do:", told.Do)
	}
	// Output:
	// allocate 8.0 GiB of page-locked memory on soft:h200: CUDA_ERROR_INVALID_VALUE: an argument is out of range, null, or does not fit the others: there is no NUMA node 7 (the system names none): ask for one that is there, or none
	// to do: ask for one that is there, or none
}
