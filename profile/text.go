package profile

import (
	"fmt"

	"github.com/ferrygpu/ferry/internal/printable"
)

// Text returns the document of a shipped profile, as [Parse] reads it.
func Text(name string) ([]byte, error) {
	text, err := shipped.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no profile %s", printable.Value(name))
	}
	return text, nil
}
