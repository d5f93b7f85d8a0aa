// Package pipeline moves data of any size through a kernel in chunks: copy in, compute,
// copy out. Both directions of the link and the kernel are busy at once.
//
// # Frames, blocks and rows
//
// An element can be an array. Then no chunk ends within a frame of a video, a block of a
// file or a row of a table:
//
//	type frame [1920 * 1080 * 3 / 2]byte // NV12
//	type picture [1920 * 1080 * 3]byte   // RGB
//
//	p := pipeline.Pipeline{
//		GPU: gpu,
//		In:  []pipeline.End{pipeline.From[frame](video)},
//		Out: []pipeline.End{pipeline.To[picture](file)},
//		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
//			// c.Len frames are in c.In[0], and their pictures go to c.Out[0].
//		},
//	}
//
// Lengths count frames: [Chunk].Len, [Pipeline].ChunkLen and the result of [Pipeline.Run].
// The ends may have elements of different sizes, as here. A reader that ends within a frame is
// an error that wraps io.ErrUnexpectedEOF. Each chunk in flight has memory for at least one
// element of each end, page-locked and on the GPU. So set [Pipeline].Depth if elements are
// large. The length of an array is a constant in Go. A program for several sizes has a generic
// function with the array as type parameter, as examples/video does.
//
// # How it works
//
// A [Pipeline] says what to do. Pipeline.Run makes a job of it: an endpoint for every
// [End], the length of the chunks, and how many of them are in flight. A run has what a
// job needs: streams, and memory and events for as many chunks. The pipeline keeps the
// run for the next job that fits.
//
// An endpoint is served in one of three ways:
//   - direct: kernels use its memory where it is,
//   - copied: the copy engines copy its memory, such as page-locked memory,
//   - staged: the CPU moves its data, to or from page-locked memory of the chunk.
//
// Without a staged endpoint, the goroutine that called Run does everything. Otherwise
// every chunk in flight has a goroutine, which fills and empties page-locked memory, with
// a worker pool for the copies. A sequencer keeps the order of chunks where an order is
// needed. The goroutine that called Run calls Step and the driver in both cases. Between
// chunks, its watcher asks which chunks are done and notifies their goroutines. The
// software GPU is the exception: its time advances when somebody waits, so each chunk's
// goroutine waits for its own chunk.
//
// The package uses the public calls of package ferry, and package bridge where those are
// not enough. tuning has all numbers about machines.
//
// No lock is held across a call of the driver or of the program. progress.mu is a leaf
// lock: no other lock is taken while it is held.
package pipeline
