// Package bindtest has kernels with parameters of all kinds, and the Go code that ferry bind
// writes for them. Its tests launch them on the software GPU. "go run ./internal/gen" makes
// the code again. Other programs have a line of go generate for that.
package bindtest
