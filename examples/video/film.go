package main

import "io"

// film is a reader of frames: a bright disc moves over all colours.
type film struct {
	width, height int
	frames, next  int
	rest          []byte // of the last frame that was made
}

// Read reads from the frames, one after the other.
func (f *film) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		if f.next >= f.frames {
			return 0, io.EOF
		}
		f.rest = f.draw(f.next)
		f.next++
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// draw draws a frame in NV12.
func (f *film) draw(number int) []byte {
	w, h := f.width, f.height
	frame := make([]byte, 0, w*h*3/2)
	radius := h / 4
	centre := radius + number*h/16%(w-2*radius)
	for y := range h {
		for x := range w {
			dx, dy, light := x-centre, y-h/2, 90
			if dx*dx+dy*dy < radius*radius {
				light = 200
			}
			frame = append(frame, byte(light))
		}
	}
	for y := range h / 2 {
		for x := range w / 2 {
			frame = append(frame, byte(48+160*2*x/w), byte(48+160*2*y/h))
		}
	}
	return frame
}

// part writes a part of what it gets: it skips some bytes, and writes those that are left then.
type part struct {
	w          io.Writer
	skip, left int
}

// Write writes what of p is in the part.
func (s *part) Write(p []byte) (int, error) {
	skip := min(s.skip, len(p))
	s.skip -= skip
	n, err := s.w.Write(p[skip:][:min(s.left, len(p)-skip)])
	s.left -= n
	if err != nil {
		return skip + n, err
	}
	return len(p), nil
}
