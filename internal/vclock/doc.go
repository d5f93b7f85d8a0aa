// Package vclock has vector clocks: which operations happened before a point of a program.
//
// Operations that follow each other form a chain, and are numbered in it from 1. A [Clock] says, for each
// chain, up to which number its operations come before. Package check has a chain for each stream. The check
// of launches in softgpu finds chains of its own.
//
// The race detector for the threads of one kernel, softgpu/internal/kernelrace, has a clock of its own. A
// launch has up to millions of threads, so that clock has one number for all threads of a block or of a warp,
// as long as they agree.
package vclock
