// Package ferry moves data between Go and a GPU, and keeps memory safe while the hardware
// uses it. The GPU is NVIDIA hardware, used through its driver without cgo, or a GPU in
// software, so that every program runs on any machine.
//
//	gpu, err := ferry.Open("")                          // an NVIDIA GPU, or the software GPU
//	host, err := ferry.AllocHost[float32](gpu, n, nil)  // page-locked host memory
//	vec, err := ferry.Alloc[float32](gpu, n)            // device memory
//	code, err := ferry.LoadFile(gpu, "kernels.ptx", nil)
//	increment, err := code.Kernel("increment")
//	s, err := ferry.NewStream(gpu, nil)
//	err = ferry.Copy(s, vec, host)                      // asynchronous, in flight on both buffers
//	err = s.Launch(increment, ferry.Cover(n, 256), vec, uint64(n))
//	err = ferry.Copy(s, host, vec)
//	fmt.Println(host.Slice()[0])                        // Slice waits for the copy
//
// # CUDA functions and their counterparts
//
//	cuInit, cuDeviceGet, cuDevicePrimaryCtxRetain     Open, OpenAll, OpenDriver
//	cuDeviceGetCount, cuDeviceGetName,                GPUs: GPUInfo
//	cuDeviceTotalMem, cuDeviceGetUuid
//	cuDeviceGetAttribute, cuMemGetInfo                GPU.Attribute, GPU.MemInfo
//	cuCtxGetStreamPriorityRange                       GPU.Priorities
//	cuMemAlloc, cudaMalloc                            Alloc: Device
//	cuMemAllocPitch, cudaMalloc3D                     AllocPitched: Device, Device.Rect
//	cuMemHostAlloc, cudaHostAlloc, cudaMallocHost     AllocHost, AllocHostContext: Host
//	cuMemHostRegister, cudaHostRegister               Register: Host
//	cuMemHostGetDevicePointer, cuMemHostGetFlags      HostOptions.Mapped, Host.Pointer, Host.Flags
//	cuMemAllocManaged, cudaMallocManaged              AllocManaged: Managed
//	cuMemPrefetchAsync, cuMemAdvise                   Managed.Prefetch, Managed.Advise, Managed.Advice
//	cuStreamAttachMemAsync                            Managed.Attach
//	cuModuleGetGlobal, cudaMemcpyToSymbol             Global, ManagedGlobal
//	malloc                                            Pageable: PageableSlice
//	p + i                                             Range
//	(float *)p                                        View: MemoryView, Host.Bytes
//	cuMemcpy...Async, cudaMemcpyAsync                 Copy, CopyContext
//	cuMemAlloc and cuMemcpyHtoD, cuMemcpyDtoH         Upload, Download
//	cuMemcpyBatchAsync                                CopyAll
//	fread and cuMemcpy, cuMemcpy and fwrite           CopyFrom, CopyTo
//	pread and cuMemcpy for many ranges and buffers    CopyParts, CopyPartsTo
//	page-locked memory for pageable copies            GPU.Staging: Staging
//	cuMemcpy2DAsync, cuMemcpy3DAsync                  CopyRect, Rect
//	cuMemsetD...Async, cudaMemsetAsync                Fill
//	cuStreamCreate, cuStreamSynchronize               NewStream, Stream.Wait
//	cuStreamQuery, cuStreamDestroy                    Stream.Done, Stream.Close
//	the legacy default stream                         GPU.DefaultStream
//	cuEventCreate, cuEventSynchronize                 NewEvent, Event.Wait
//	cuEventRecord, cuStreamWaitEvent                  Stream.Record, Stream.WaitEvent
//	cuEventElapsedTime                                Event.Since
//	cuStreamWriteValue32, cuStreamWaitValue32         WriteValue, WaitValue
//	cuModuleLoadData, cuModuleGetFunction             Load, LoadFile, Module.Kernel
//	cuModuleLoadDataEx, cuLinkCreate, cuLinkAddData   LoadOptions, Link, Module.Log
//	cuLaunchKernel, <<<grid, block>>>                 Stream.Launch, LaunchConfig, Cover, Cover2D
//	several operations in one driver call             Batch, Stream.Submit
//	chunks over several streams, double buffering     package pipeline
//	cuLaunchHostFunc                                  Stream.HostFunc, Stream.Notify
//	cuStreamBeginCapture, cuGraphInstantiate          Stream.Capture: Graph
//	cuGraphLaunch, cuGraphExecUpdate                  Graph.Launch, Graph.Update
//	cuMemAllocAsync, cuMemFreeAsync                   AllocAsync, Device.Close
//	cuDeviceGetDefaultMemPool, cuMemPoolCreate        GPU.DefaultMemPool, NewMemPool: MemPool
//	cuMemPoolSetAttribute, cuMemPoolTrimTo            MemPool.SetKeep, MemPool.Trim
//	a cache of page-locked memory                     NewPinnedPool: PinnedPool, Host.Alloc
//	cuDeviceCanAccessPeer, cuCtxEnablePeerAccess      GPU.CanAccessPeer, GPU.EnablePeer
//	cuMemPoolSetAccess                                GPU.EnablePeer
//	cuCtxSynchronize                                  GPU.Wait
//	free, cuMemFree, cuMemFreeHost                    Close
//
// docs/from.md says what differs, and has such tables for gocudrv, cudarc and PyTorch.
//
// # In-flight tracking
//
// An operation is in flight from the call that queues it until it is known to be done.
// Each buffer tracks the operations in flight on it: for each stream, the last operation
// that reads the buffer and the last that writes it. Ranges share the tracker of their
// buffer. Slice waits for reads and writes in flight, ReadSlice waits for writes, and
// Close waits for both. Tracking takes a few nanoseconds per operation. It records nothing
// on the device, and a stream is synchronized only when a goroutine waits. After a wait
// for a stream or an event, later waits for the same operations return at once.
//
// A graph owns the buffers that it captured. If a program closes such a buffer, its memory
// is freed when the graph is closed. Captured operations are not in flight. Each launch of
// the graph is in flight on its stream, for all buffers that the graph uses.
//
// Ferry cannot track these uses of memory:
//   - by kernels, through an address instead of a buffer: [Device.Pointer], or an address
//     stored in other memory;
//   - by operations that the program queues on the driver itself: [GPU.Driver];
//   - by Go, through a slice that the program keeps while it queues the next operation.
//
// # Asynchronous calls
//
// Calls that queue an operation on a stream return at once. The exceptions are copies of
// pageable memory, and copies from host memory to host memory: [Synchronous] reports
// whether a copy would wait. docs/ASYNC.md has a table of all calls. Wait methods take a
// context, and so do [CopyContext], [CopyFrom], [CopyTo], [CopyParts], [CopyPartsTo], [AllocHostContext],
// [Host.AllocContext] and [Host.SliceContext].
//
// With CUDA_LAUNCH_BLOCKING=1 in the environment, a launch returns when its kernel is done,
// on hardware and on the software GPU. So a program can find the launch that fails. Ferry
// has no option of its own for this, because the driver reads the variable before the
// first call, for the whole process.
//
// # Goroutines and threads
//
// CUDA keeps the current context in the thread. A goroutine can move to another thread at
// any time, so Ferry passes the context with every call to the driver. Any goroutine can
// use any GPU. Other libraries need a current context: [GPU.Current] makes one current, and
// [Stream.External] does so for work of a library in a stream. For the same reason no [Stream]
// is CUDA's per-thread default stream: [Stream.ExternalPerThread] is for code that uses that.
//
// # Errors
//
// An error says which operation failed, how many bytes and which kind of memory it was
// about, on which GPU or stream, and why. It wraps the result of the driver, so that
// errors.Is(err, cu.ErrorOutOfMemory) works. If Ferry refuses a call itself, the error
// wraps the result that the driver would have returned.
//
// Calls return errors and do not panic, with one exception. Slice and ReadSlice return no
// error. They panic with an error value if the buffer is closed or a range out of bounds,
// if an operation on it has failed, or in a host function. [Host.SliceContext],
// [Host.ReadSliceContext] and the methods of [Managed] and [MemoryView] with these names return
// the error instead.
//
// # Locks
//
// Nearly all mutexes are leaves: no other lock is taken while one of them is held. No leaf
// is held across a driver call or a call of the program's functions. In this package the
// leaves are GPU.mu, driverStates.mu, driverState.mu, Module.mu,
// PinnedPool.mu and capture.mu. In internal packages they are Group.mu of await, Map.mu of
// hostmap, mu of filerange, and Tracker.mu, birth.mu and Recorder.mu of inflight.
//
// Graph.execLock is held across driver calls about one executable graph, because drivers do
// not allow such calls at the same time. Any leaf can be taken while it is held. Two locks
// of internal/pin are held while memory is page-locked: see that package. A Close that
// waits for a driver call of another goroutine holds Stream.drains of inflight. The other
// internal packages document their locks themselves.
package ferry
