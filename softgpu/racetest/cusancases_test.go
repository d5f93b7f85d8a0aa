package racetest

// published is a test case of CuSan, and the pair with its situation.
type published struct {
	name    string // of a file in CuSan's folder test, without ".c"; the first of those with the same program
	also    string // other folders that have a file with that name and program
	about   string
	expects string // what CuSan's test expects
	pair    string // "" for none
	host    bool   // one of the two accesses in the wrong program of the pair is the CPU's own
}

// What CuSan's tests expect.
const (
	both      = "race / none"          // of the program without and with the synchronization
	onlyRight = "none"                 // there is one program, which is correct
	onlyText  = "wrong / right result" // the test does not look at reports
	xfail     = " (XFAIL)"             // CuSan expects that its test fails today
	analysis  = "access to arguments"  // a test of its compiler: what a kernel reads and writes
	calls     = "inserted calls"       // a test of its compiler: calls of CuSan's library
)

// cusanCases are all test cases of CuSan. Cases of its folder pass are under those of folder
// runtime where the program is the same.
var cusanCases = []published{
	{"runtime/02_event", "pass", "kernel, record of an event, host reads managed memory; right: waits for the event", both, "cusan/event-recorded-only", true},
	{"runtime/03_cuda_to_mpi", "pass", "kernel, MPI_Send of its result; right: waits for the device", both, "cusan/send", false},
	{"runtime/04_mpi_to_cuda", "pass", "MPI_Irecv, kernel writes the same memory; right: MPI_Wait between", both, "cusan/receive", false},
	{"runtime/05_cuda_to_mpi_stream", "pass", "kernel in a stream, MPI_Send; right: waits for the stream", both, "cusan/source-of-the-copy", false},
	{"runtime/06_cuda_to_mpi_event", "pass", "kernel, record of an event, MPI_Send; right: waits for the event", both, "cusan/event-between-two-kernels", false},
	{"runtime/07_cuda_to_mpi_read", "pass", "MPI_Send of memory that a kernel only reads", onlyRight, "cusan/argument-that-is-only-read", false},
	{"runtime/08_cudamemcpy_to_mpi", "pass", "copy of 256 MiB from pageable memory, MPI_Send of them", onlyRight, "typed/pageable-then-other-stream", false},
	{"runtime/09_cudamemcpy_default", "pass", "copy of registered memory onto itself, host reads it", onlyRight, "cusan/copied-onto-itself", true},
	{"runtime/10_cudahostalloc", "pass", "page-locked memory is allocated and freed, and not used", onlyRight, "", false},
	{"runtime/11_cuda_to_mpi_struct_of_buff", "pass", "kernels get a struct of two pointers, MPI_Send of one; right: waits for the device", both, "cusan/struct-of-pointers", false},
	{"runtime/11_struct_of_buff", "pass", "kernels of two streams get a struct of two pointers; right: waits for the device", both, "cusan/struct-of-pointers", false},
	{"runtime/12_struct_ptr", "pass", "as before, the struct is in page-locked memory", both + xfail, "cusan/pointer-to-a-struct", false},
	{"runtime/13_struct_recursion", "pass", "as before, each pointer is in a struct of its own: the same argument in PTX", both, "cusan/struct-of-pointers", false},
	{"runtime/14_cuda_functor", "pass", "as 02_event, the pointer is captured by a lambda: the same argument in PTX", both, "cusan/event-recorded-only", true},
	{"runtime/15_cuda_memset_sync", "pass", "kernels in two blocking streams, a wait for the second, host reads what the first writes; right: a fill between", both, "cusan/fill-between", true},
	{"runtime/15_cuda_memset_sync_nonblocking", "pass", "the same with a non-blocking stream and the fill; right: waits for the first stream", both, "cusan/fill-beside-a-non-blocking-stream", true},
	{"runtime/16_cuda_hostalloc_implicit_sync", "", "kernel, copy of its result in another stream; \"right\": cudaMallocManaged between", both + xfail, "cusan/allocation-between", false},
	{"runtime/16_cuda_malloc_implicit_sync", "", "the same; \"right\": cudaMalloc between", both + xfail, "cusan/allocation-between", false},
	{"runtime/17_cuda_stream_query_busy_loop", "pass", "kernel, host reads; right: queries the stream until it is done", both, "query-failed", true},
	{"runtime/18_cuda_event_query_busy_loop", "pass", "the same with an event", both, "event-query-failed", true},
	{"runtime/18_cuda_event_with_flags_query_busy_loop", "pass", "the same with an event for waits that sleep", both, "event-query-failed", true},
	{"runtime/18_cuda_to_mpi_event_query_busy_loop", "pass", "the same, MPI_Send reads the managed memory", both, "event-query-failed", true},
	{"runtime/19_cuda_cudaMemcpyAsyncH2H_implicit_sync", "pass", "kernel, copy of its result in another blocking stream; right: a copy from host to host between", both, "cusan/copy-between", false},
	{"runtime/19_cuda_cudaMemcpyAsyncH2H_implicit_sync_nonblocking", "pass", "the same with non-blocking streams and the copy; right: waits for the kernel", both, "cusan/copy-beside-non-blocking-streams", false},
	{"runtime/19_cuda_to_mpi_send_cudaMemcpyAsyncH2H_implicit_sync", "pass", "as the first of these, MPI_Send reads the result", both, "cusan/copy-between", false},
	{"runtime/20_cuda_default_stream_sync", "pass", "kernels in a blocking and in the default stream, host reads; right: waits for the default stream", both, "cusan/default-stream-waited-for", true},
	{"runtime/20_cuda_to_mpi_send_ds_sync_w_r", "pass", "the same, MPI_Send reads the managed memory", both, "cusan/default-stream-waited-for", true},
	{"runtime/21_chunked_streams_example", "pass", "chunks of a result are copied in a stream each, waited for and sent", onlyRight, "cusan/chunks", true},
	{"runtime/22_cuda_to_mpi_partial_buff_write", "pass", "MPI_Send of one half while a kernel writes the other", onlyRight, "memory/mapped-half", true},
	{"runtime/23_cuda_default_stream_post_sync", "pass", "kernels in the default and in a blocking stream, host reads; right: waits for the blocking stream", both, "cusan/behind-the-default-stream", true},
	{"runtime/23_cuda_default_stream_post_sync_nonblocking", "pass", "the same with a wait for a non-blocking stream; right: waits for the device", both, "cusan/beside-the-default-stream", true},
	{"runtime/24_cuda_sync_stream_default_nonblocking", "pass", "kernel, a wait for the default stream, host reads; right: the stream is a blocking one", both, "cusan/default-stream-synchronized", true},
	{"runtime/25_cuda_default_stream_double_sync", "pass", "kernels in a blocking, the default and another blocking stream, host reads; right: waits for the last", both, "cusan/default-stream-between", true},
	{"runtime/26_malloc_pitch", "pass", "as 03_cuda_to_mpi with memory of cudaMallocPitch", both, "cusan/send", false},
	{"runtime/27_cuda_memcpy2d_implicit_syn", "", "kernel, copy of a rectangle in another blocking stream; right: a synchronous copy of one between", both, "cusan/rectangle-between", false},
	{"runtime/28_cuda_memset2d_implicit_syn", "pass", "the same; right: a fill of a rectangle between", both, "two-blocking-streams", false},
	{"runtime/29_tsan_cuda_to_mpi", "pass", "as 03_cuda_to_mpi", onlyText, "cusan/send", false},
	{"runtime/30_tsan_annotate_cuda_to_mpi", "pass", "as 03_cuda_to_mpi; the report has the lines", both, "cusan/send", false},
	{"runtime/31_tsan_cuda_event", "pass", "kernels in two streams with a record between; right: waits for the event", both, "cusan/event-between-two-kernels", false},
	{"runtime/32_tsan_async_copy", "pass", "kernel, copy of its result in another stream; right: waits for the first stream", both, "cusan/source-of-the-copy", false},
	{"runtime/33_tsan_wait_event", "pass", "a kernel writes, one of another stream reads; right: that stream waits for an event", both, "memory/managed-two-streams", false},
	{"runtime/34_negative_array", "", "a kernel writes through the pointer before its argument, host reads; right: waits for the device", both + xfail, "cusan/negative-index", true},
	{"runtime/35_struct_null", "", "a struct with a null pointer that the kernel does not follow; right: waits for the device", both, "cusan/null-pointer-in-a-struct", true},
	{"multi_gpu/01_device_sync", "", "kernels on two devices, a wait for the second, host reads both results; right: waits for both", both, "the-other-device", true},
	{"multi_gpu/02_device_sync_event", "", "kernel, record, the other device becomes current, host reads; right: waits for the event", both, "cusan/waited-for-on-the-other-device", true},
	{"kernel_analysis/01_ptr_write", "", "the program of 02_event", analysis, "cusan/event-recorded-only", true},
	{"kernel_analysis/02_val_readwrite_ptr_read_ptr_write", "", "a kernel reads one argument, and writes another in a function", analysis, "cusan/argument-that-is-only-read", false},
	{"kernel_analysis/03_struct_write", "", "the program of 11_cuda_to_mpi_struct_of_buff", analysis, "cusan/struct-of-pointers", false},
	{"kernel_analysis/04_struct_ptr", "", "the program of 12_struct_ptr", analysis + xfail, "cusan/pointer-to-a-struct", false},
	{"kernel_analysis/05_struct_inside_of_struct", "", "the program of 13_struct_recursion", analysis + xfail, "cusan/struct-of-pointers", false},
	{"kernel_analysis/06_cuda_lambda", "", "the program of 14_cuda_functor", analysis, "cusan/event-recorded-only", true},
	{"kernel_analysis/07_negative_array", "", "the program of 34_negative_array", analysis, "cusan/negative-index", true},
	{"kernel_analysis/08_big_struct_write", "", "as 03_struct_write with numbers behind the pointers", analysis, "cusan/struct-of-pointers", false},
	{"pass/01_test", "", "the kernel of 02_val_readwrite_ptr_read_ptr_write", calls, "cusan/argument-that-is-only-read", false},
	{"pass/34_test_sync_callback", "", "a wait for the device, and no memory", calls, "", false},
	{"pass/35_test_sync_callback_stream", "", "a wait for a stream, and no memory", calls, "", false},
	{"pass/36_test_sync_callback_event", "", "a wait for an event, and no memory", calls, "", false},
}
