// Package closing has what the Close methods of package ferry share: the work that a host
// function may not do, and the second Close after a wait that failed.
package closing
