// Package diff compares two results of "ferry bench": two runs, or a prediction and a
// measurement. It calls a time slower only if the noise of both results does not explain
// the difference.
package diff
