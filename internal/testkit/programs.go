package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Programs builds programs of cmd into a folder; flags are for go build. It runs cp on them with go run, which keeps
// linked programs in the build cache: go build would link again each time.
func Programs(to string, names []string, flags ...string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	var all errgroup.Group
	for _, name := range names {
		all.Go(func() error {
			args := slices.Concat([]string{"run", "-exec", "cp"}, flags,
				[]string{"github.com/conclave-dp/conclave/cmd/" + name, filepath.Join(to, name)})
			c := exec.Command("go", args...)
			if out, err := c.CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w\n%s", c, err, out)
			}
			return nil
		})
	}
	return all.Wait()
}
