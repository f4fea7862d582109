package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/conclave-dp/conclave/internal/version"
)

// manCommand writes a manual page for each command of the program.
func manCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "man --out DIR",
		Short: "write the manual pages of all commands",
	}
	out := c.Flags().String("out", "", "`folder` for the pages; created if needed")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *out == "" {
			return Misuse("--out: give a folder")
		}
		if err := os.MkdirAll(*out, 0o755); err != nil {
			return fmt.Errorf("create the folder of manual pages: %w", err)
		}
		header := &doc.GenManHeader{Source: version.Software, Manual: "Conclave"}
		if err := doc.GenManTree(c.Root(), header, *out); err != nil {
			return fmt.Errorf("write the manual pages: %w", err)
		}
		fmt.Println(filepath.Join(*out, c.Root().Name()+".1"))
		return nil
	}
	return c
}
