// Package overlap shows what the order of issue does: copy in, kernel and copy out in
// several streams, depth first or breadth first, as a timeline with what blocked what.
// It is behind "ferry trace overlap".
package overlap
