package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"
)

// ErrDiffers says that a different file exists.
var ErrDiffers = errors.New("already exists and differs")

// Place writes a whole file, or accepts an equal one; a different one is an error that matches [ErrDiffers]. So a
// command that was stopped between files can continue.
func Place(path string, content []byte, mode os.FileMode) error {
	held, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := renameio.WriteFile(path, content, mode, renameio.WithStaticPermissions(mode)); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	case err != nil:
		return fmt.Errorf("read %s: %w", path, err)
	case !bytes.Equal(held, content):
		return fmt.Errorf("%s %w; keep it and continue by hand, or move it away and run the command again", path,
			ErrDiffers)
	}
	return nil
}
