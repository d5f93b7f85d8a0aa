package ferry

// turns lets slots do something in the order of their chunks: each takes its turn and
// passes it to the next slot, with the word whether to go on.
type turns []chan bool

func newTurns(n int) turns {
	t := make(turns, n)
	for i := range t {
		t[i] = make(chan bool, 1)
	}
	t[0] <- true
	return t
}

// take waits for slot i's turn and says whether to go on.
func (t turns) take(i int) bool { return <-t[i] }

// pass gives the turn to the slot after i. It never blocks: there is one turn.
func (t turns) pass(i int, on bool) { t[(i+1)%len(t)] <- on }
