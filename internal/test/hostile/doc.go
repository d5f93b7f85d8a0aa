// Package hostile has inputs that are made to cost much, and checks what an input costs. No
// input of [Bytes] bytes may take more than [Time] or [Memory] to be refused. Tests and
// fuzz targets use it; no program does.
package hostile
