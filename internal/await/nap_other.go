//go:build !linux

package await

import "time"

func nap(d time.Duration) { time.Sleep(d) }
