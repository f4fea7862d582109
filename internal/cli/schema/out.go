package schema

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// checkOut refuses an output file that cannot be written, or that exists without permission to replace it.
func (o *proposeFlags) checkOut() error {
	folder := filepath.Dir(o.out)
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return fmt.Errorf("--out: the folder %s does not exist; create it, or give a file in another folder", folder)
	case err != nil:
		return fmt.Errorf("write the schema: %w", err)
	}
	for _, path := range o.Files {
		if sameFile(path, folder) {
			return fmt.Errorf("--out: %s would become a part of the table in %s; give a file in another "+
				"folder", o.out, path)
		}
	}
	switch info, err := os.Lstat(o.out); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write the schema: %w", err)
	case info.IsDir():
		return fmt.Errorf("--out: %s is a folder; give a file in it", o.out)
	case !o.force:
		return fmt.Errorf("%s already exists; give another file with --out, or add --force to replace it", o.out)
	}
	return nil
}

// checkInputs refuses a file that the proposal was made from, by any name.
func (o *proposeFlags) checkInputs(read []string) error {
	for _, path := range read {
		if sameFile(path, o.out) {
			return fmt.Errorf("--out: %s is %s, which is an input and is never replaced; give another "+
				"file", o.out, path)
		}
	}
	return nil
}

// sameFile reports whether two paths lead to one file or folder, also through links.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// writePrivate writes a file that only its owner can read, whatever the mode of the old one.
func writePrivate(path string, text []byte) error {
	// renameio.WriteFile would keep the old file's mode.
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.CloseAtomicallyReplace()
	}
	return errors.Join(err, f.Cleanup())
}
