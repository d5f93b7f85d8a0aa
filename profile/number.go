package profile

// Number is a value and its source.
type Number struct {
	Value  float64 `json:"value"`
	Source string  `json:"source"` // a key of Profile.Sources
}

// Int returns the value as an integer.
func (n Number) Int() int { return int(n.Value) }
