// Package ferryotel gives the figures of GPUs and the operations of devices to OpenTelemetry.
//
// [Register] makes observable instruments of the metrics of package
// [github.com/ferrygpu/ferry/metrics].
//
// [Observe] makes a span of each operation of a device, such as a copy or a kernel, that a goroutine
// queues between [Bind] and its end. The span is a child of the one in Bind's context. CUDA knows no
// context, so the goroutine is what links an operation to its request. A pipeline queues on the
// goroutine that calls Run; a program's own goroutines call Bind themselves.
package ferryotel
