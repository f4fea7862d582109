package sitepolicy

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// charged is a site whose ledger has an opening entry, a run and a number of charges.
func charged(t testing.TB, charges int) site {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	for i := range charges {
		_, err := g.Charge(round("r", uint64(i), 20))
		testkit.Must(t, err)
	}
	return s
}

func (s site) head() string { return strings.TrimSuffix(s.ledger, ".jsonl") + ".head" }

// Any altered, removed or reordered entry is detected, and nothing is answered.
func TestADamagedLedgerIsRefused(t *testing.T) {
	for name, damage := range map[string]func(s site){
		"an edited number": func(s site) { s.edit(3, `"count":1`, `"count":2`) },
		"a run's epsilon":  func(s site) { s.edit(1, `"epsilon":1`, `"epsilon":3`) },
		"white space":      func(s site) { s.edit(3, `"seq":4`, `"seq": 4`) },
		"a line removed":   func(s site) { s.rewrite(func(l []string) []string { return append(l[:3:3], l[4:]...) }) },
		"the last removed": func(s site) { s.rewrite(func(l []string) []string { return l[:len(l)-1] }) },
		"all but one":      func(s site) { s.rewrite(func(l []string) []string { return l[:1] }) },
		"emptied":          func(s site) { s.rewrite(func(l []string) []string { return nil }) },
		"two swapped": func(s site) {
			s.rewrite(func(l []string) []string { l[3], l[4] = l[4], l[3]; return l })
		},
		"one twice":      func(s site) { s.rewrite(func(l []string) []string { return append(l[:4:4], l[3:]...) }) },
		"a torn middle":  func(s site) { s.rewrite(func(l []string) []string { l[3] = l[3][:20]; return l }) },
		"a torn end":     func(s site) { s.rewrite(func(l []string) []string { l[5] = l[5][:20]; return l }) },
		"removed":        func(s site) { testkit.Must(s.t, os.Remove(s.ledger)) },
		"head removed":   func(s site) { testkit.Must(s.t, os.Remove(s.head())) },
		"head emptied":   func(s site) { testkit.Must(s.t, os.WriteFile(s.head(), nil, 0o600)) },
		"another's":      func(s site) { s.takeFrom(charged(s.t, 4)) },
		"another's head": func(s site) { s.copyHead(charged(s.t, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := charged(t, 4)
			if len(s.lines()) != 6 {
				t.Fatalf("%d lines", len(s.lines()))
			}
			running := s.enforcer()
			testkit.Must(t, running.Check())
			damage(s)
			refusal := refusedBy(t, s.enforcer().Ask(round("r", 9, 20)), RuleLedger)
			if !errors.Is(s.use(), ErrLedger) || !strings.Contains(refusal.Error(), "restore") &&
				!strings.Contains(refusal.Error(), "backup") {
				t.Errorf("%v does not say what to do", refusal)
			}
			status, err := s.enforcer(func(o *Options) { o.ReadOnly = true }).Status()
			if !errors.Is(err, ErrLedger) {
				t.Errorf("a status of a damaged ledger: %+v", status)
			}
			// A running node does not reread the start of the file: it only notices that the file was replaced or
			// truncated.
			switch name {
			case "the last removed", "all but one", "emptied", "removed", "another's", "head emptied":
				refusedBy(t, running.Ask(round("r", 9, 20)), RuleLedger)
			}
		})
	}
}

func (s site) use() error {
	return newSiteLedger(s.ledger, false).use(func(*book) ([]Entry, error) { return nil, nil })
}

func (s site) rewrite(change func([]string) []string) {
	lines := s.lines()
	lines[len(lines)-1] += "\n"
	testkit.Must(s.t, os.WriteFile(s.ledger, []byte(strings.Join(change(lines), "")), 0o600))
}

func (s site) edit(line int, old, with string) {
	s.rewrite(func(lines []string) []string {
		if !strings.Contains(lines[line], old) {
			s.t.Fatalf("no %s in %s", old, lines[line])
		}
		lines[line] = strings.Replace(lines[line], old, with, 1)
		return lines
	})
}

func (s site) takeFrom(other site) {
	raw, err := os.ReadFile(other.ledger)
	testkit.Must(s.t, err)
	testkit.Must(s.t, os.WriteFile(s.ledger+".new", raw, 0o600))
	testkit.Must(s.t, os.Rename(s.ledger+".new", s.ledger))
}

func (s site) copyHead(other site) {
	raw, err := os.ReadFile(other.head())
	testkit.Must(s.t, err)
	testkit.Must(s.t, os.WriteFile(s.head(), raw, 0o600))
}

// A crash during a write leaves part of a line, or the line without the head. A part is dropped, because no answer
// left; a full line counts.
func TestACrashInTheMiddleOfALine(t *testing.T) {
	whole := charged(t, 3)
	raw := testkit.Read(t, whole.ledger)
	lines := whole.lines()
	last := []byte(lines[len(lines)-1])
	rest := raw[:len(raw)-len(last)-1]
	for cut := len(last) + 1; cut >= 0; cut -= 1 + cut/9 {
		s := newSite(t)
		s.write(allowing)
		torn := append(bytes.Clone(rest), append(bytes.Clone(last), '\n')[:cut]...)
		testkit.Must(t, os.WriteFile(s.ledger, torn, 0o600))
		// The head of the previous entry. The times differ, so the hash is taken from the line.
		var e Entry
		e, err := parseEntry([]byte(strings.TrimSuffix(lines[len(lines)-2], "\n")))
		testkit.Must(t, err)
		testkit.Must(t, LedgerHead{e.Seq, e.Hash}.Write(s.head(), unsynced))
		again, err := s.enforcer().Charge(round("r", 2, 20))
		testkit.Must(t, err)
		if complete := cut == len(last)+1; complete != (again.Events == nil) {
			t.Fatalf("%d of %d bytes: the round was charged again: %v", cut, len(last), again.Events != nil)
		}
		if got := s.lines(); len(got) != len(lines) {
			t.Fatalf("%d of %d bytes: %d lines", cut, len(last), len(got))
		}
		testkit.Must(t, s.enforcer().Check())
	}
	// Zeros instead of a line, as some file systems leave them.
	s := charged(t, 2)
	f, err := os.OpenFile(s.ledger, os.O_APPEND|os.O_WRONLY, 0)
	testkit.Must(t, err)
	_, err = f.Write(append(make([]byte, 500), '\n'))
	testkit.Must(t, errors.Join(err, f.Close()))
	_, err = s.enforcer().Charge(round("r", 2, 20))
	testkit.Must(t, err)
	if len(s.lines()) != 5 {
		t.Errorf("%d lines", len(s.lines()))
	}
	// The very first line.
	s = newSite(t)
	s.write(allowing)
	testkit.Must(t, os.WriteFile(s.ledger, []byte(`{"seq":1,`), 0o600))
	_, err = s.enforcer().Charge(round("r", 0, 20))
	testkit.Must(t, err)
}

// On a full disk there is no answer, and no charge that could be forgotten.
func TestAnEntryThatCannotBeWrittenIsNoAnswer(t *testing.T) {
	s := charged(t, 1)
	g := s.enforcer()
	testkit.Must(t, g.Check())
	// A folder in its place keeps the head from being replaced.
	testkit.Must(t, os.Remove(s.head()))
	testkit.Must(t, os.Mkdir(s.head(), 0o700))
	_, err := g.Charge(round("r", 1, 20))
	refusedBy(t, err, RuleLedger)
	testkit.Must(t, os.Remove(s.head()))
	_, err = g.Charge(round("r", 1, 20)) // the process knows where it was
	testkit.Must(t, err)
	testkit.Must(t, s.enforcer().Check())
}

// The node charges while people decide in other processes.
func TestSeveralWriters(t *testing.T) {
	s := charged(t, 1)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			g := s.enforcer()
			for i := range 10 {
				var err error
				if w == 0 {
					_, err = g.Decide("r", "", Decision{Approve: i%2 == 0, By: "ann"})
				} else {
					r := round("r", uint64(100*w+i), 100)
					if _, err = g.Charge(r); err != nil {
						var refusal *Refusal
						if errors.As(err, &refusal) && refusal.Rule == RuleDenied {
							err = nil
						}
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	testkit.Must(t, s.enforcer().Check())
	status, err := s.enforcer().Status()
	testkit.Must(t, err)
	if int(status.Entries) != len(s.lines()) {
		t.Errorf("%d entries, %d lines", status.Entries, len(s.lines()))
	}
}

// Its files are for the node's user, and a crash in the middle of a write leaves nothing for long.
func TestALedgerIsPrivate(t *testing.T) {
	s := charged(t, 1)
	part := s.head() + partOf
	testkit.Must(t, os.WriteFile(part, []byte("cut short"), 0o644))
	_, err := s.enforcer().Charge(round("r", 1, 20))
	testkit.Must(t, err)
	for _, path := range []string{s.ledger, s.head()} {
		at, err := os.Stat(path)
		testkit.Must(t, err)
		if at.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, at.Mode())
		}
	}
	if _, err := os.Lstat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part is left: %v", err)
	}
}

// Reading a status creates nothing and fixes nothing.
func TestReadingChangesNothing(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	look := func(o *Options) { o.ReadOnly = true }
	status, err := s.enforcer(look).Status()
	testkit.Must(t, err)
	if status.Entries != 0 || status.EpsilonLeft != 2 || len(status.Runs) != 0 {
		t.Errorf("status %+v", status)
	}
	testkit.Must(t, s.enforcer(look).Check())
	if _, err := os.Stat(s.ledger); err == nil {
		t.Error("a ledger was made")
	}
	s = charged(t, 2)
	raw := testkit.Read(t, s.ledger)
	torn := append(raw, "{"...)
	testkit.Must(t, os.WriteFile(s.ledger, torn, 0o600))
	status, err = s.enforcer(look).Status()
	testkit.Must(t, err)
	if now, _ := os.ReadFile(s.ledger); !bytes.Equal(now, torn) || status.Entries != 4 {
		t.Errorf("a torn line was fixed, or %d entries are not 4", status.Entries)
	}
	if _, err := s.enforcer(look).Charge(round("r", 5, 20)); err == nil ||
		!strings.Contains(err.Error(), "opened read-only") {
		t.Errorf("charged while reading: %v", err)
	}
}

// FuzzTake parses bytes as a ledger. It must not panic. The accepted part is a chain with the charges of its lines,
// and only the end is dropped.
func FuzzTake(f *testing.F) {
	s := charged(f, 3)
	raw := testkit.Read(f, s.ledger)
	f.Add(raw, uint64(0))
	f.Add(raw, uint64(5))
	f.Add(raw[:len(raw)-10], uint64(4))
	f.Add(raw[:len(raw)-10], uint64(5))
	f.Add(bytes.Replace(raw, []byte("gnmax"), []byte("lnmax"), 1), uint64(5))
	b := asked(f, 1)
	testkit.Value(b.decides("ann", true))
	testkit.Value(b.enforcer().Decide("a", "", Decision{Approve: true, By: "u", Advance: lab(1),
		Until: b.now.Add(time.Hour),
		Sign:  b.signer("ann")}))
	f.Add(testkit.Read(f, b.ledger), uint64(3))
	f.Add([]byte("{}\n"), uint64(0))
	f.Add([]byte("\n\n"), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, acknowledged uint64) {
		b := newBook()
		var h *LedgerHead
		if acknowledged > 0 {
			h = &LedgerHead{Seq: acknowledged, Hash: digest("x")}
		}
		good, err := b.take(raw, h)
		if good > len(raw) || good > 0 && raw[good-1] != '\n' {
			t.Fatalf("%d of %d bytes are good", good, len(raw))
		}
		if lines := bytes.Count(raw[:good], []byte("\n")); uint64(lines) != b.last.Seq || len(b.hashes) != lines {
			t.Fatalf("%d lines, %d entries", lines, b.last.Seq)
		}
		if err == nil && good < len(raw) && h != nil && b.last.Seq < h.Seq {
			t.Fatal("an acknowledged line was left out without an error")
		}
		var events []privacy.Event
		previous := ""
		for line := range bytes.Lines(raw[:good]) {
			e, err := parseEntry(bytes.TrimSuffix(line, []byte("\n")))
			testkit.Must(t, err)
			if e.Previous != previous {
				t.Fatal("no chain")
			}
			previous = e.Hash
			if e.Type == EntryCharge {
				events = append(events, e.Events...)
			}
		}
		if got, want := len(b.spent), len(privacy.Merge(events)); got != want {
			t.Fatalf("%d events are charged, the lines have %d", got, want)
		}
	})
}

// A link in place of the ledger is not followed, and its target stays unchanged.
func TestALedgerIsNoLink(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	precious := filepath.Join(s.dir, "precious")
	for _, there := range []bool{true, false} {
		if there {
			testkit.Must(t, os.WriteFile(precious, []byte("what no ledger says"), 0o600))
		} else {
			testkit.Must(t, os.Remove(precious))
		}
		_ = os.Remove(s.ledger)
		testkit.Must(t, os.Symlink(precious, s.ledger))
		_, err := s.enforcer().Charge(round("r", 0, 20))
		refusedBy(t, err, RuleLedger)
		if raw, err := os.ReadFile(precious); there && string(raw) != "what no ledger says" || !there && err == nil {
			t.Errorf("behind the link is %q (%v)", raw, err)
		}
	}
}

// Write access to the folder does not allow showing people text that hides other text.
func TestALedgerHasNoHiddenText(t *testing.T) {
	denied := func(by string) Entry {
		return Entry{Type: EntryDeny, Run: "r", SpecSHA256: digest("x"), entryDecision: entryDecision{By: by}}
	}
	for name, e := range map[string]Entry{
		"an escape": denied("a\x1b[2K"), "a line": denied("a\nb"), "letters turned": denied("\u202eb"),
		"a run's bad name": {Type: EntryEnd, Run: "r\nq"},
	} {
		e.Seq, e.Previous, e.Time = 2, digest("before"), "2026-11-26T12:00:00.000Z"
		hash, err := e.digest()
		testkit.Must(t, err)
		e.Hash = hash
		line := testkit.Value(e.canonical())
		if _, err := parseEntry(line); err == nil {
			t.Errorf("%s: %s is read", name, line)
		}
	}
}

// A running process does not accept a longer ledger with a matching .head if it knows another one.
func TestAnotherHistoryIsNotTakenWhileTheNodeRuns(t *testing.T) {
	s, other := charged(t, 4), charged(t, 9)
	running := s.enforcer()
	testkit.Must(t, running.Check())
	s.takeFrom(other)
	s.copyHead(other)
	if r := refusedBy(t, running.Check(), RuleLedger); !strings.Contains(r.Private, "while this process ran") {
		t.Errorf("it says %v", r)
	}
	refusedBy(t, running.Check(), RuleLedger)
}
