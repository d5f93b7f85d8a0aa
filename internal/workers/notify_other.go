//go:build !linux

package workers

type notifier = condNotifier
