package wrappers

// Len returns the number of wrappers in the registry.
func Len() int {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return len(registry.all)
}
