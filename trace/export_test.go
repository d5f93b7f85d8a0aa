package trace

// ResetEnvironment lets the next call of Environment start a recording.
func ResetEnvironment() {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	environment.recorder, environment.drivers = nil, nil
}
