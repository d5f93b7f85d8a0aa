// Package apimodel runs random programs of Ferry's API beside a model of them. A program
// allocates memory of every kind, copies, fills and launches on several streams, orders its
// work by events and waits, submits batches, captures and launches graphs, and closes what
// it has, in an order that a seed chooses. The model is a Go slice for each buffer, changed
// at once. The program is always synchronized, so its results do not depend on the order in
// which the device works, and must be those of the model.
//
// Its test runs programs on every schedule of the software GPU, and on hardware. A program
// that fails is replayed with fewer steps, to find the shortest that fails.
package apimodel
