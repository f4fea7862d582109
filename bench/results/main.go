// Command results writes docs/results.md, its figures, and the tables of results in other pages. It uses the logs
// of benches in bench/results/logs, and the quotations in bench/papers. No figure is typed by hand.
//
//	go run ./bench/results
//
// It runs in the root of the repository. To add a measurement, give a bench a log there with --log, and run it again.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func main() { cli.Main(command()) }

func command() *cobra.Command {
	return &cobra.Command{
		Use:   "results",
		Short: "write docs/results.md from the benchmark logs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			files, err := generate(".")
			if err != nil {
				return err
			}
			for path, text := range files {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					return fmt.Errorf("%w; run the command in the root of the repository", err)
				}
			}
			return nil
		},
	}
}

// generate returns what is generated in the repository at root, by path.
func generate(root string) (map[string]string, error) {
	logs, err := readLogs(filepath.Join(root, "bench", "results", "logs"))
	if err != nil {
		return nil, err
	}
	return (&page{logs: logs, root: root, files: map[string]string{}}).write()
}
