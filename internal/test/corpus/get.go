package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// get fetches the commit of a project into a folder, without the project's history.
func (p *project) get(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return nil
	}
	for _, args := range [][]string{
		{"init", "-q", dir},
		{"-C", dir, "fetch", "-q", "--depth=1", p.url, p.commit},
		{"-C", dir, "checkout", "-q", "FETCH_HEAD"},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("git %v: %w", args, err)
		}
	}
	return nil
}
