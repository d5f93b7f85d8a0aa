package metrics

// Len returns how many GPUs and pools the set keeps.
func (s *Set) Len() int { return len(s.all()) }
