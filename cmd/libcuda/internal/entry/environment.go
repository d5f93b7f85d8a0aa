package entry

import (
	"os"
	"strings"
)

// ours reports whether the library reads a variable of the environment.
func ours(name string) bool {
	return strings.HasPrefix(name, "FERRY_") || name == logVariable || name == "CUDA_LAUNCH_BLOCKING" || name == "CUDA_VISIBLE_DEVICES"
}

// takeEnvironment gives Go the variables that the program has set, changed or removed since it loaded
// the library. Go's environment is that of the start. What a privileged program must not read,
// internal/secureenv refuses as before.
func takeEnvironment() {
	now := map[string]string{}
	for _, text := range host.Environment() {
		if name, value, _ := strings.Cut(text, "="); ours(name) {
			now[name] = value
		}
	}
	for _, text := range os.Environ() {
		if name, _, _ := strings.Cut(text, "="); ours(name) {
			if _, still := now[name]; !still {
				_ = os.Unsetenv(name)
			}
		}
	}
	for name, value := range now {
		if before, had := os.LookupEnv(name); !had || before != value {
			_ = os.Setenv(name, value)
		}
	}
}
