// Package trace records what a program does with a device: every driver call and every
// operation of the device. A recording has the kind of memory, the bytes, the stream,
// the engine, the line of the program, and the start and end of each.
//
// Set FERRY_TRACE=FILE to record any program that uses package ferry. The command
// "ferry trace" reports recordings. A program that opens drivers itself uses [Start] and
// [Recorder.Wrap].
//
// [Driver] wraps a [cu.Driver]. Its methods are generated from the interface; hooks
// beside them (functions named before... and after...) describe the operations. The
// software GPU reports the times of operations itself. On hardware events in the streams
// measure them, see [Driver].
//
// [Read] reads recordings. Reports of recordings are in cmd/ferry/internal/tracereport.
package trace
