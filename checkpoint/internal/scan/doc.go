// Package scan reads headers of files that nobody has checked. It keeps a window of the file, and
// what it returns is as long as what it has read: no number in a file makes it allocate more.
//
//   - reader.go: Reader, bytes in order
//   - json.go: JSON, the values of a document in order
package scan
