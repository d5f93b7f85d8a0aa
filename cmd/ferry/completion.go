package main

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/nearest"
)

// shells are the shells with a completion script, in the order of help.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// newCompletion returns the command "ferry completion".
func newCompletion(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print a script that completes commands in a shell",
		Long: `Prints a script for a shell. With it the shell completes commands, flags,
devices, profiles, kinds of operations and names of kernels. For bash it needs
the package bash-completion.
`,
		Example: `  source <(ferry completion bash)                      # this shell only
  ferry completion bash >/etc/bash_completion.d/ferry
  ferry completion zsh >"${fpath[1]}/_ferry"
  ferry completion fish >~/.config/fish/completions/ferry.fish`,
		ValidArgs: shells,
		Args: func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return badUsage("no shell was given: want bash, zsh, fish or powershell")
			}
			return noWords(c, words[1:])
		},
		RunE: func(c *cobra.Command, words []string) error {
			script, err := completionScript(c.Root(), words[0])
			if err != nil {
				return err
			}
			return s.write(script)
		},
	}
}

// completionScript returns the script for a shell.
func completionScript(root *cobra.Command, shell string) ([]byte, error) {
	write, ok := map[string]func(io.Writer) error{
		"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        root.GenZshCompletion,
		"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": root.GenPowerShellCompletionWithDesc,
	}[shell]
	if !ok {
		return nil, badUsage("no completion for shell %q; %s", shell, nearest.Ask(shell, shells))
	}
	var script bytes.Buffer
	err := write(&script)
	return script.Bytes(), err
}
