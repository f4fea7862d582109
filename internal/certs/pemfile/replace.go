package pemfile

import (
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace atomically writes a world-readable file, over an existing one if there is one.
func Replace(path, kind string, der []byte) error {
	return ReplaceText(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// ReplaceText is Replace for PEM text.
func ReplaceText(path string, raw []byte) error {
	temporary, err := Stage(path, raw)
	if err != nil {
		return err
	}
	return Move(temporary, path)
}

// Stage writes and syncs a world-readable temporary file next to path.
func Stage(path string, raw []byte) (temporary string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", fmt.Errorf("replace %s: %w", path, err)
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("replace %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return f.Name(), nil
}

// Move gives a staged file its name.
func Move(temporary, path string) error {
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, errors.Join(err, os.Remove(temporary)))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	// Some file systems cannot sync a folder; the file itself is on disk.
	_ = folder.Sync()
	return folder.Close()
}
