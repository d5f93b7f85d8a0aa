// Package advise answers which kind of host memory, which path, which chunks and how many
// streams suit a step of a program: data from the CPU, a kernel, results for the CPU. It is
// behind "ferry advise".
//
// A Job describes the step. A way is one alternative, and a lab runs ways on a device: on
// the software GPU of a profile for predictions, on any device for measurements. No formula
// predicts: every time is that of a run, or a line through two runs of smaller jobs.
//
//   - job.go: the options
//   - kernel.go: the kernel that stands for the user's, kernels.cu
//   - way.go, lab.go, memory.go: the alternatives, and how they run
//   - predict.go, terms.go: their times on the software GPU, and what these consist of
//   - search.go, flips.go, why.go: chunks, where the choice changes, why others lose
//   - code.go: Go code for a way
//   - verify.go: measurements beside predictions
//   - report.go, text.go: the document and the table
package advise
