// Command gen writes the tables of fields into the pages of the repository at the path it is given.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/reference"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen ROOT")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	pages, err := reference.Update(root)
	if err != nil {
		return err
	}
	for path, text := range pages {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
