package local

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// A budget covers the runs of one ledger, and a local run in another folder has another ledger. The register of
// data files records which files had a budget on this machine, so that a second budget is noticed. It identifies a
// file by a keyed digest of its content; the key is created once, so the register reveals nothing about a table.
const (
	registerKey   = "data-files.key"
	registerFile  = "data-files.jsonl"
	ledgerID      = "ledger.id"
	longestRecord = 1 << 24 // bytes of the register
)

// RegisterDir is the register's folder for the user of this process: conclave in $XDG_STATE_HOME if that is set,
// else in the folder of the user's configuration.
func RegisterDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		var err error
		if base, err = os.UserConfigDir(); err != nil {
			return "", fmt.Errorf("find a folder for the register of data files: %w; set XDG_STATE_HOME", err)
		}
	}
	return filepath.Join(base, "conclave"), nil
}

// registered is a line of the register: a ledger that has a budget for a file.
type registered struct {
	File   string         `json:"file"` // HMAC-SHA256 of the content
	Ledger string         `json:"ledger"`
	Out    string         `json:"out"` // the output folder, for the person whose register it is
	Budget privacy.Budget `json:"budget"`
}

// register records a budget for files in the register of a folder. It returns which other ledgers have a budget
// for any of them, for the run's certificate and, in detail, for the user. A ledger is identified by the number
// in its state folder.
func register(dir, state, out string, files []string, budget privacy.Budget) (notes, details []string, err error) {
	fail := func(err error) ([]string, []string, error) {
		return nil, nil, fmt.Errorf("register of data files: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	key, err := madeOnce(filepath.Join(dir, registerKey))
	if err != nil {
		return fail(err)
	}
	ledger, err := madeOnce(filepath.Join(state, ledgerID))
	if err != nil {
		return fail(err)
	}
	path := filepath.Join(dir, registerFile)
	all, err := readRegister(path)
	if err != nil {
		return fail(err)
	}
	if out, err = filepath.Abs(out); err != nil {
		return fail(err)
	}
	others := map[string]registered{}
	var lines strings.Builder
	for _, name := range slices.Compact(slices.Sorted(slices.Values(files))) {
		digest, err := digestOf(name, key)
		if err != nil {
			return fail(err)
		}
		entry := registered{File: digest, Ledger: ledger, Out: out, Budget: budget}
		known, earlier, last := false, 0, registered{}
		for _, r := range all {
			switch {
			case r.File != digest:
			case r.Ledger == ledger:
				known = true
			default:
				if _, named := others[r.Ledger]; !named { // once, for any number of parts
					earlier, last = earlier+1, r
				}
				others[r.Ledger] = r
			}
		}
		if earlier > 0 {
			detail := fmt.Sprintf("%s was used before: the run in %s had a budget of epsilon %g at delta %g", name,
				last.Out, last.Budget.Epsilon, last.Budget.Delta)
			if earlier > 1 {
				detail += fmt.Sprintf(", and %s before it", text.Several(earlier-1, "other run"))
			}
			details = append(details, detail+".")
		}
		if !known {
			raw, err := json.Marshal(entry)
			if err != nil {
				return fail(err)
			}
			lines.Write(append(raw, '\n'))
		}
	}
	if err := appendTo(path, lines.String()); err != nil {
		return fail(err)
	}
	if len(others) == 0 {
		return nil, nil, nil
	}
	total := budget
	for _, r := range others {
		total.Epsilon, total.Delta = total.Epsilon+r.Budget.Epsilon, total.Delta+r.Budget.Delta
	}
	return []string{fmt.Sprintf("Data files of this run also have a budget in %s on this machine: together up to "+
		"epsilon %.4g and delta %.3g, by simple addition. No ledger adds these up.",
		text.Several(len(others), "other ledger"), total.Epsilon, total.Delta)}, details, nil
}

// madeOnce reads a number of 32 random bytes in hex, or creates it with permissions for the user only.
func madeOnce(path string) (string, error) {
	var number [32]byte
	if _, err := rand.Read(number[:]); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(hex.EncodeToString(number[:]) + "\n")
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("other users can read %s; run chmod 600", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	if b, err := hex.DecodeString(text); err != nil || len(b) != len(number) {
		return "", fmt.Errorf("%s does not contain 64 hexadecimal digits; remove it to get a new one", path)
	}
	return text, nil
}

func digestOf(path, key string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	mac := hmac.New(sha256.New, []byte("conclave/data-files/1/"+key))
	if _, err := io.Copy(mac, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// readRegister reads the complete lines and skips a line that a crash cut off.
func readRegister(path string) (all []registered, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, longestRecord+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > longestRecord {
		return nil, fmt.Errorf("%s is larger than %d bytes; move it away", path, longestRecord)
	}
	for line := range strings.Lines(string(raw)) {
		var r registered
		if json.Unmarshal([]byte(line), &r) == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

func appendTo(path, lines string) error {
	if lines == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// The first line end terminates a line that a crash cut off.
	_, err = f.WriteString("\n" + lines)
	return errors.Join(err, f.Sync(), f.Close())
}
