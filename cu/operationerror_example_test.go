package cu_test

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

func ExampleOperationError() {
	// What a wait returns, such as StreamSynchronize.
	var err error = &cu.OperationError{
		Operation: "fill 96.0 MiB", Result: cu.ErrorOutOfMemory, Why: "this computer has 40.0 MiB free",
	}
	if failed, ok := errors.AsType[*cu.OperationError](err); ok {
		fmt.Println(failed.Operation)
	}
	fmt.Println(errors.Is(err, cu.ErrorOutOfMemory))
	fmt.Println(err)
	// Output:
	// fill 96.0 MiB
	// true
	// fill 96.0 MiB: CUDA_ERROR_OUT_OF_MEMORY: this computer has 40.0 MiB free
}
