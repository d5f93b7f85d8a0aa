// Package ferry moves data between Go and a GPU, and keeps memory safe while the
// hardware is using it. The GPU is NVIDIA's, through its driver, without cgo; or
// it is software, so that every program runs anywhere.
//
//	dev, err := ferry.Open("")                          // a GPU, or the software one
//	host, err := ferry.AllocHost[float32](dev, n, nil)  // page-locked
//	vec, err := ferry.Alloc[float32](dev, n)
//	s, err := dev.NewStream(nil)
//	err = ferry.Copy(s, vec, host)                      // asynchronous; both know that they are in flight
//	err = s.Launch(inc, ferry.Grid(n, 256), vec, uint64(n))
//	err = ferry.Copy(s, host, vec)
//	fmt.Println(host.Slice()[0])                        // Slice waits
//
// # What you know, and what it is here
//
//	cuInit, cuDeviceGet, cuDevicePrimaryCtxRetain     Open, OpenAll, OpenDriver
//	cuMemAlloc, cudaMalloc                            Alloc: Device
//	cuMemHostAlloc, cudaHostAlloc, cudaMallocHost     AllocHost: Host
//	cuMemHostRegister, cudaHostRegister               Register: Host
//	cuMemHostGetDevicePointer                         HostOptions.Mapped, Host.Pointer
//	cuMemAllocManaged, cudaMallocManaged              AllocManaged: Managed
//	cuMemPrefetchAsync, cuMemAdvise                   Managed.Prefetch, Managed.Advise, Managed.Advice
//	cuStreamAttachMemAsync                            Managed.Attach
//	cuModuleGetGlobal, cudaMemcpyToSymbol             Global, ManagedGlobal
//	malloc                                            Plain: Slice
//	cuMemcpy...Async, cudaMemcpyAsync                 Copy
//	cuMemcpyBatchAsync                                CopyAll
//	fread and cuMemcpy, cuMemcpy and fwrite           CopyFrom, CopyTo
//	cuMemcpy2DAsync, cuMemcpy3DAsync                  CopyBox, Box
//	cuMemAllocPitch, cudaMalloc3D                     AllocPitched
//	cuMemsetD...Async, cudaMemsetAsync                Fill
//	p + i                                             Range
//	cuStreamCreate, cuStreamSynchronize               GPU.NewStream, Stream.Wait
//	cuEventRecord, cuStreamWaitEvent                  Stream.Record, Stream.WaitEvent
//	cuEventElapsedTime                                Event.Since
//	cuModuleLoadData, cuModuleGetFunction             GPU.Load, Module.Kernel
//	cuLaunchKernel, <<<grid, block>>>                 Stream.Launch, Grid
//	several of these in one call                      Batch, Stream.Submit
//	chunks over several streams, double buffering     Pipeline, From, To
//	cuLaunchHostFunc                                  Stream.HostFunc, Stream.Notify
//	cuStreamBeginCapture, cuGraphInstantiate          Stream.Capture: Graph
//	cuGraphLaunch, cuGraphExecUpdate                  Graph.Launch, Graph.Update
//	cuMemAllocAsync, cuMemFreeAsync                   AllocAsync, Device.Close
//	cuMemPoolCreate, cuMemPoolSetAttribute            GPU.Pool, GPU.NewPool: Pool
//	a cache of page-locked memory                     GPU.NewHostPool: HostPool, Host.Alloc
//	how long page-locking will take                   GPU.PredictPin
//	cuCtxEnablePeerAccess                             GPU.EnablePeer
//	free, cuMemFree, cuMemFreeHost                    Close
//
// # The rule of flight
//
// A buffer knows the operations in flight on it, per stream, reads and writes
// apart. Slice waits for those that conflict with what the host may do, Close for
// all of them; ranges share the knowledge of their buffer. To know costs a few
// nanoseconds an operation: nothing is recorded on the device, a stream is
// synchronised only when somebody waits for it. Waiting for a stream or an event
// makes later questions free.
//
// A graph owns the buffers that were captured: they outlive their Close until the
// graph's. While a stream captures, nothing that is queued there is in flight;
// each launch of the graph puts all that it uses in flight on its stream.
//
// What the rule cannot see: memory used through addresses ([Device.Pointer], an
// address inside other memory), work queued past this package ([GPU.Driver]), and
// a slice that is still in somebody's hands while the next operation is queued.
//
// # What returns at once
//
// Operations of streams return when they are queued, but for copies of plain
// slices and from host to host memory: [Synchronous] tells of any copy, docs/ASYNC.md
// of all calls. With CUDA_LAUNCH_BLOCKING=1 in the environment, on hardware and
// on the software GPU, launches return when the kernel is done, to find the one
// that fails. Ferry adds no switch of its own: the driver's is read before the
// first call and holds for all of the process.
//
// # Errors
//
// An error says which operation, how many bytes, which kind of memory, where, and
// why. It wraps what the driver said: errors.Is(err, cu.ErrorOutOfMemory). What
// Ferry refuses by itself wraps the result that the driver would have given. Bad
// input never panics.
//
// # Locks
//
// No lock is held across a call of the driver, but for the turn of a [Graph],
// which drivers do not let several goroutines use at once. queue.mu, flight.mu,
// Event.mu, line.mu, capture.mu, order.mu, waiter.mu, GPU.mu, Module.mu, HostPool.mu, registries.mu
// and registry.mu are leaves: none is taken while another is held.
package ferry
