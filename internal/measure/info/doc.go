// Package info describes a device: its driver, its abilities and its link to the host.
// "ferry info" prints the whole description. Every JSON document and every table of
// the commands begins with a part of it.
package info
