// Package nccl lets ranks work together: one rank for each GPU, in one process or in many, on one
// machine or on many. Its collectives (all-reduce, broadcast, all-gather ...) and its sends and
// receives work on memory and streams of package ferry, by NVIDIA's NCCL, and without it on
// the software GPU. So a program for eight GPUs is tested on a laptop.
//
//	world, err := nccl.Environment()           // which rank is this, by the launcher's variables
//	gpu, err := nccl.OpenGPU(world)
//	comm, err := nccl.Open(ctx, gpu, nil)      // waits until all ranks have come
//	err = nccl.AllReduce(comm, stream, sums, parts, nccl.Sum)
//	err = comm.Wait(ctx, stream)
//
// Every rank makes the same calls, in the same order. A call queues its work in the stream and
// returns. Its memory is in flight until the work is done, as with a launch. A rank that does not
// call is found on the software GPU and with [Options.Verify]; on hardware NCCL waits for it.
//
// In a capture of a stream the calls become part of the graph. The communicator must be open as long as
// the graph is launched, and all ranks launch their graphs in the same order.
//
// # Files
//
//   - comm.go, open.go: Comm, and how ranks meet
//   - call.go, group.go: the calls, and several as one
//   - op.go, type.go: reductions and element types
//   - frame.go: how a call is checked and queued
package nccl
