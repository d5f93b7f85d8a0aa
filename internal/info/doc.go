// Package info says what a device is: who answers, what it can do, how it hangs
// on the host. It stands behind "ferry info" and gives every document and every
// table its first lines.
package info
