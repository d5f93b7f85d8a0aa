package profile

import "fmt"

// Text returns the document of a shipped profile, as [Parse] reads it.
func Text(name string) ([]byte, error) {
	text, err := shipped.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no profile %q", name)
	}
	return text, nil
}
