package question

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
)

// lastSum is the last sum that a node drew for a run, and the identity of its question.
type lastSum struct {
	run      string
	question [sha256.Size]byte
	sum      []int64
}

// Once returns the sum that draw computes for a round. The same question asked again gets the same sum, until the
// run asks another one: its charge pays for one sample.
//
// The sum is stored in memory, and in a file before it leaves, so that a node that was killed returns it again. A
// machine that loses power may lose the file, and then draws a new sample.
func (s *Site) Once(r Round, draw func() ([]int64, error)) ([]int64, error) {
	last, path := Memory[lastSum](s.Public), filepath.Join(s.State, sumFile(r.Run))
	asked := sha256.Sum256(fmt.Appendf(nil, "%d %s", r.Number, r.Digest()))
	if last.run != r.Run {
		raw, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrState, err)
		}
		*last = readLastSum(r.Run, raw)
	}
	if last.question == asked {
		return slices.Clone(last.sum), nil
	}
	sum, err := draw()
	if err != nil {
		return nil, err
	}
	if err := r.Paid(); err != nil {
		return nil, err
	}
	next := lastSum{r.Run, asked, sum}
	if err := next.write(path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	*last = next
	return slices.Clone(sum), nil
}

// ForgetSums removes from a state folder what [Site.Once] and [Site.Pass] store there, when charged questions are
// charged again: each charge pays for its own sample, or passes. The node must not run.
func ForgetSums(state string) error {
	files, err := fs.Glob(os.DirFS(state), sumFile("*"))
	passes, more := fs.Glob(os.DirFS(state), passesFile("*"))
	if err = errors.Join(err, more); err != nil {
		return fmt.Errorf("read the last sums in %s: %w", state, err)
	}
	for _, name := range append(files, passes...) {
		err = errors.Join(err, os.Remove(filepath.Join(state, name)))
	}
	return err
}

func sumFile(run string) string { return "run-" + run + ".sum" }

// TeachersFile is the name of the file in a state folder with a run's teachers.
func TeachersFile(run string) string { return "run-" + run + ".safetensors" }

// RemoveRun removes the state of a run that has ended from a state folder.
func RemoveRun(state, run string) (err error) {
	err = safetensors.Remove(filepath.Join(state, TeachersFile(run)))
	for _, name := range []string{sumFile(run), passesFile(run)} {
		if removed := os.Remove(filepath.Join(state, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	if err != nil {
		return fmt.Errorf("remove the state of a run that has ended: %w", err)
	}
	return nil
}

// write overwrites the run's file. A sync, or replacing the file, would cost a small round a tenth of its time.
// The checksum detects a file that was only partly written; the sum in it has not left.
func (l lastSum) write(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	raw := l.bytes()
	_, err = f.Write(raw)
	return errors.Join(err, f.Truncate(int64(len(raw))), f.Close())
}

// sums is the checksum table that detects incomplete files.
var sums = crc32.MakeTable(crc32.Castagnoli)

// bytes encodes the question's name, the entries and a checksum.
func (l lastSum) bytes() []byte {
	raw := make([]byte, 0, len(l.question)+8*len(l.sum)+crc32.Size)
	raw = append(raw, l.question[:]...)
	for _, v := range l.sum {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return binary.LittleEndian.AppendUint32(raw, crc32.Checksum(raw, sums))
}

// readLastSum reads a run's file. An incomplete one answers no question.
func readLastSum(run string, raw []byte) lastSum {
	l := lastSum{run: run}
	end := len(raw) - crc32.Size
	if end < len(l.question) || (end-len(l.question))%8 != 0 ||
		!bytes.Equal(raw[end:], binary.LittleEndian.AppendUint32(nil, crc32.Checksum(raw[:end], sums))) {
		return l
	}
	copy(l.question[:], raw)
	for at := len(l.question); at < end; at += 8 {
		l.sum = append(l.sum, int64(binary.LittleEndian.Uint64(raw[at:])))
	}
	return l
}
