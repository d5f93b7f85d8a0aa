package pipeline

// sequencer makes the goroutines of the chunks in flight do a step in the order of the
// chunks. One goroutine has the turn. It passes the turn to the next goroutine, with a
// bool that is false after the last chunk or an error.
type sequencer []chan bool

// newSequencer makes a sequencer for n goroutines. Goroutine 0 has the first turn.
func newSequencer(n int) sequencer {
	s := make(sequencer, n)
	for i := range s {
		s[i] = make(chan bool, 1)
	}
	s[0] <- true
	return s
}

// wait waits for the turn of goroutine i. It reports whether to go on.
func (s sequencer) wait(i int) bool { return <-s[i] }

// pass gives the turn to the goroutine after i. It never blocks, because there is one
// turn and each channel has capacity 1.
func (s sequencer) pass(i int, goOn bool) { s[(i+1)%len(s)] <- goOn }
