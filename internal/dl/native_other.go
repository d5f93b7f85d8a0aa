//go:build !linux || !(amd64 || arm64) || android || faketime || ferrysoft

package dl

// Supported reports whether this platform can open libraries.
const Supported = false

func open(string) (*Library, error) { return nil, ErrPlatform }

// Symbol returns [ErrPlatform].
func (*Library) Symbol(string) (uintptr, error) { return 0, ErrPlatform }

// Call is never reached, because no library opens on this platform.
func Call(uintptr, ...uintptr) uintptr { return 0 }

// Callback returns [ErrPlatform].
func Callback(func(uintptr)) (uintptr, error) { return 0, ErrPlatform }

// Allocate returns [ErrPlatform].
func Allocate(uintptr) (uintptr, error) { return 0, ErrPlatform }

// Free is never reached, because Allocate returns nothing.
func Free(uintptr) {}
