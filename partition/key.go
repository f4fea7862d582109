package partition

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Key is a site's secret for hashing privacy units. It must outlive every run on the data: another key gives other
// partitions, so that two teachers would see the same units. Printing it does not reveal it.
type Key [32]byte

// NewKey draws a key from the system's source of randomness.
func NewKey() (Key, error) {
	var key Key
	if _, err := rand.Read(key[:]); err != nil {
		return Key{}, fmt.Errorf("draw a partition key: %w", err)
	}
	return key, nil
}

// Format prints a placeholder, whatever the verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("partition key (secret)")) }

// MarshalText refuses, so that a key never ends up in JSON or a log.
func (Key) MarshalText() ([]byte, error) {
	return nil, errors.New("a partition key is secret and has no text form; it is only in its key file")
}

// LoadOrCreateKey reads the key file, 64 hexadecimal digits on one line, or creates it with mode 0600. A file that
// others can read, or with other content, is an *InputError. If two processes create the file at once, both get the
// first one's key.
func LoadOrCreateKey(path string) (Key, error) {
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = NewKey(); err != nil {
		return Key{}, err
	}
	if err := createKey(path, key); err != nil && !errors.Is(err, fs.ErrExist) {
		return Key{}, &InputError{File: path, Problem: "cannot create the partition key",
			Fix: "create its folder, and make it writable", Err: WithoutPath(err)}
	}
	return loadKey(path)
}

func loadKey(path string) (Key, error) {
	problem := func(text, fix string, err error) (Key, error) {
		return Key{}, &InputError{File: path, Problem: text, Fix: fix, Err: err}
	}
	info, err := os.Stat(path)
	if err != nil {
		return problem("cannot read the partition key", "check path and permissions", WithoutPath(err))
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return problem("everybody can read the partition key", "run chmod 600", nil)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return problem("cannot read the partition key", "check path and permissions", WithoutPath(err))
	}
	var key Key
	const fix = "restore the file from a backup; a new key gives every unit another partition"
	text := bytes.TrimSpace(raw)
	if len(text) != hex.EncodedLen(len(key)) {
		return problem("not a partition key, which is 64 hexadecimal digits", fix, nil)
	}
	if _, err := hex.Decode(key[:], text); err != nil {
		return problem("not a partition key, which is 64 hexadecimal digits", fix, nil)
	}
	if key == (Key{}) {
		return problem("a partition key of zeros protects nothing", "remove the file to get a new key", nil)
	}
	return key, nil
}

// createKey writes a temporary file and then links it to its name, which fails if the name exists. So nobody ever
// sees half a key.
func createKey(path string, key Key) error {
	return writeAside(path, []byte(hex.EncodeToString(key[:])+"\n"), os.Link)
}

// writeAside writes and syncs a temporary file of mode 0600 next to the path, which place then moves there.
func writeAside(path string, text []byte, place func(from, to string) error) error {
	aside, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(aside.Name())
	_, err = aside.Write(text)
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return err
	}
	return place(aside.Name(), path)
}
