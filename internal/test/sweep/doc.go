// Package sweep has scenarios: short programs that use each public operation of Ferry, free
// all that they took, and return the errors of all calls. Its test runs each of them once
// for every driver call that it makes, with that call failing.
package sweep
