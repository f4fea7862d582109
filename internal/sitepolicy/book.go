package sitepolicy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// book is the content of a ledger.
type book struct {
	last                Entry
	newest              time.Time // of all entries; time never goes back behind it, whatever a clock says
	hashes              []string  // of all entries
	dataset, site, node string
	limit               privacy.Budget
	spent               []privacy.Event // merged
	epsilonSpent        float64
	charged             map[string]charge // the last charge of each run, by name
	runs                map[runKey]*runBook
	order               []runKey // in order of appearance
	lists               map[string]string
	accepted            *decision // the newest acceptance of an older dataset ledger
}

// runKey identifies a run: another spec is another run, whatever its name.
type runKey struct{ run, spec string }

// charge is a charge for a run, and its entry's number. A node repeats only the last answer of a run for free; it
// answers an earlier question with another sample.
type charge struct {
	what [sha256.Size]byte
	seq  uint64
}

type runBook struct {
	spec      Spec
	requester string
	// advance is the scope of an approval in advance, nil for a run. spent is then the cost of runs under it.
	advance   *Advance
	seen      string
	decisions []*decision // in order
	charges   int         // counts rounds, and questions that replaced others
	charged   string
	spent     []privacy.Event
	// used counts the uses of each plan entry, and within is their cost, according to the dataset's ledger. After an
	// older ledger was accepted both are empty.
	used   []int64
	within []privacy.Event
	// reveals are the openings of a masked run's newest round, according to the dataset's ledger.
	reveals reveals
	ended   bool
	under   string // digest of the approval in advance of its newest charge that had one
}

func newBook() *book {
	return &book{charged: map[string]charge{}, runs: map[runKey]*runBook{}}
}

// take parses lines and returns the length of the valid part in bytes. Invalid lines after the acknowledged entry
// were torn by a crash and are dropped; others are an error.
func (b *book) take(raw []byte, acknowledged *LedgerHead) (good int, err error) {
	for good < len(raw) {
		line, _, whole := bytes.Cut(raw[good:], []byte("\n"))
		var e Entry
		err := errors.New("the line has no end")
		if whole {
			e, err = parseEntry(line)
		}
		if err == nil {
			err = b.add(e)
		}
		if err == nil {
			good += len(line) + 1
			continue
		}
		next := b.last.Seq + 1
		if acknowledged != nil && acknowledged.Seq >= next || acknowledged == nil && next > 1 {
			return good, fmt.Errorf("line %d: %w; it was altered: restore it from a backup", next, err)
		}
		return good, nil
	}
	return good, nil
}

// add adds an entry if it follows the last one.
func (b *book) add(e Entry) error {
	digest, err := e.digest()
	switch {
	case err != nil:
		return err
	case e.Hash != digest:
		return errors.New("the hash does not match the entry")
	case e.Seq != b.last.Seq+1 || e.Previous != b.last.Hash:
		return errors.New("the entry does not follow the one before")
	case (e.Type == EntryOpen) != (e.Seq == 1):
		return errors.New("a ledger must start with the entry that opens it, and have no other of this type")
	}
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil && at.After(b.newest) {
		b.newest = at
	}
	if err := b.apply(e); err != nil {
		return err
	}
	b.last = e
	b.hashes = append(b.hashes, e.Hash)
	return nil
}

// seal chains the entries that are not chained yet, and returns the last of all.
func (b *book) seal(entries []Entry, now time.Time) (last Entry, err error) {
	last = b.last
	for i := range entries {
		if entries[i].Hash == "" {
			err = entries[i].seal(last, now)
		}
		if last = entries[i]; err != nil {
			break
		}
	}
	return last, err
}

func (b *book) apply(e Entry) error {
	key := runKey{e.Run, e.SpecSHA256}
	run := b.runs[key]
	switch e.Type {
	case EntryOpen:
		b.dataset, b.site, b.node, b.limit = e.Dataset, e.Site, e.Node, *e.Limit
		return nil
	case EntryLimit:
		b.limit = *e.Limit
		return nil
	case EntryAccept:
		b.accepted = b.decision(e, b.newest)
		// The accepted ledger does not know the earlier uses. An approval that ended stays ended, because a person
		// gave it for a run that was over.
		clear(b.charged)
		for _, r := range b.runs {
			r.used, r.within, r.reveals = nil, nil, reveals{}
		}
		return nil
	case EntryLists:
		b.lists = e.Lists
		return nil
	case EntryEnd:
		for key, r := range b.runs {
			r.ended = r.ended || key.run == e.Run && r.advance == nil
		}
		return nil
	case EntryRun:
		if run != nil {
			return fmt.Errorf("run %q is already recorded", e.Run)
		}
		b.runs[key] = &runBook{spec: *e.Spec, requester: e.Requester, seen: e.Time}
		b.order = append(b.order, key)
		return nil
	case EntryAdvance:
		if run != nil {
			return fmt.Errorf("%q already has an approval in advance", e.Run)
		}
		b.runs[key] = &runBook{advance: e.Advance, seen: e.Time}
		b.order = append(b.order, key)
		return nil
	}
	if run == nil {
		return fmt.Errorf("run %q is not recorded", e.Run)
	}
	switch {
	case e.Type == EntryExpire:
		return run.expire(e)
	case e.Type != EntryCharge:
		b.decided(run, e, b.newest)
		return nil
	case run.advance != nil:
		return fmt.Errorf("%q is charged, but is not a run", e.Run)
	}
	if e.Under != "" {
		if err := b.chargeAdvance(run, e); err != nil {
			return err
		}
	}
	b.charged[e.Run] = charge{chargeOf(e.Run, e.SpecSHA256, *e.Round, e.Question), e.Seq}
	b.spent = privacy.Merge(append(b.spent, e.Events...))
	b.epsilonSpent = e.EpsilonSpent
	if run.used == nil {
		run.used = make([]int64, len(run.spec.Plan))
	}
	if *e.Planned >= len(run.used) {
		return fmt.Errorf("run %q has no entry %d in its plan", e.Run, *e.Planned)
	}
	run.charges++
	run.charged = e.Time
	run.spent = privacy.Merge(append(run.spent, e.Events...))
	if run.spec.Masked != nil && run.reveals.of(*e.Round) { // plan and budget count a round once
		run.reveals.made++
		return nil
	}
	run.reveals = reveals{round: *e.Round, made: 1, planned: *e.Planned, uses: e.Uses}
	run.used[*e.Planned] += e.Uses
	run.within = privacy.Merge(append(run.within, e.Events...))
	return nil
}

// paid returns the number of the entry that paid for a question, or 0 if it was not the last one charged for its run.
func (b *book) paid(t Request) uint64 {
	if last := b.charged[t.Run]; last.what == chargeOf(t.Run, t.SpecSHA256, t.Round, t.Question) {
		return last.seq
	}
	return 0
}

// chargeOf identifies what is charged once.
func chargeOf(run, spec string, round uint64, question string) (sum [sha256.Size]byte) {
	h := sha256.New()
	_, _ = io.WriteString(h, run+"\n"+spec+"\n"+question+"\n")
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, round))
	h.Sum(sum[:0])
	return sum
}
