package question

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// answered holds the passes of a run that a node answered: for each question, the common part of its passes, and
// which passes were answered.
type answered struct {
	run  string
	of   map[digest]digest
	each map[digest]map[digest]bool
}

type digest = [sha256.Size]byte

// Pass records that a pass of a run is answered, before it is. It refuses a pass whose common part differs from
// that of the question's other passes, and more than most different passes: an approval is for one question, and a
// charge for the passes that it can take. A pass with the same params may be answered again.
//
// The record is kept in memory and in a file, so that a node that was killed continues to count.
func (s *Site) Pass(run string, serves, common, params []byte, most int) error {
	seen, path := Memory[answered](s.Public), filepath.Join(s.State, passesFile(run))
	if seen.run != run {
		raw, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrState, err)
		}
		*seen = readAnswered(run, raw)
	}
	question, of, pass := sha256.Sum256(serves), sha256.Sum256(common), sha256.Sum256(params)
	switch known, asked := seen.of[question]; {
	case asked && known != of:
		return errors.New("the pass has other features or steps than earlier passes of the same question; ask a new " +
			"question, with its own charge")
	case seen.each[question][pass]:
		return nil
	case len(seen.each[question]) >= most:
		return fmt.Errorf("the question has had %d different passes, the maximum; ask it again in another run, with "+
			"stable connections to nodes", most)
	}
	if err := writeAnswered(path, question, of, pass); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	seen.add(question, of, pass)
	return nil
}

func passesFile(run string) string { return "run-" + run + ".passes" }

func (a *answered) add(question, of, pass digest) {
	if a.each[question] == nil {
		a.of[question], a.each[question] = of, map[digest]bool{}
	}
	a.each[question][pass] = true
}

// readAnswered reads a run's file. An incomplete record is from a crash: its pass was not answered.
func readAnswered(run string, raw []byte) answered {
	a := answered{run, map[digest]digest{}, map[digest]map[digest]bool{}}
	const n = sha256.Size
	for ; len(raw) >= 3*n; raw = raw[3*n:] {
		a.add(digest(raw[:n]), digest(raw[n:2*n]), digest(raw[2*n:3*n]))
	}
	return a
}

// writeAnswered appends a record after the complete ones in the file.
func writeAnswered(path string, record ...digest) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	at, err := f.Stat()
	if err == nil {
		size := int64(len(record) * sha256.Size)
		var raw []byte
		for _, d := range record {
			raw = append(raw, d[:]...)
		}
		_, err = f.WriteAt(raw, at.Size()/size*size)
	}
	return errors.Join(err, f.Close())
}
