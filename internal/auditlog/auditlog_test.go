package auditlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) (*Log, string, *observer.ObservedLogs) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new", "audit.jsonl")
	core, log := observer.New(zap.InfoLevel)
	l, err := Open(path, "aggregator", "agg", zap.New(core))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, path, log
}

// read reads a file whose lines must all be entries; torn counts those that are not.
func read(t *testing.T, path string) (entries []Entry, torn int) {
	t.Helper()
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e Entry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			torn++
			continue
		}
		entries = append(entries, e)
	}
	return entries, torn
}

func events(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Event)
	}
	return strings.Join(all, " ")
}

func TestLinesAreAppendedWithTimeRoleAndName(t *testing.T) {
	l, path, _ := open(t)
	round := uint64(0)
	forged := writer{Time: "never", Role: "student", Name: "mallory"}
	testkit.Must(t, l.Write(Entry{writer: forged, Event: Released, Run: "r", Round: &round}))
	testkit.Must(t, l.Write(Entry{Event: Refused, Reason: "a \"quoted\"\nreason"}))
	testkit.Must(t, l.Close())
	again, err := Open(path, "aggregator", "agg", zap.NewNop())
	testkit.Must(t, err)
	testkit.Must(t, again.Close())
	entries, torn := read(t, path)
	if events(entries) != "started release refusal stopped started stopped" || torn != 0 {
		t.Fatalf("%d torn, %s", torn, events(entries))
	}
	for _, e := range entries {
		at, err := time.Parse(time.RFC3339, e.Time)
		if err != nil || time.Since(at) > time.Minute || !strings.HasSuffix(e.Time, "Z") || e.Role != "aggregator" ||
			e.Name != "agg" {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if e := entries[1]; e.Round == nil || *e.Round != 0 || e.Run != "r" {
		t.Errorf("round 0 is written as %+v", e)
	}
	info, err := os.Stat(path)
	testkit.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// Many goroutines and rotations at once lose no line and tear none.
func TestRotationLosesNothing(t *testing.T) {
	l, path, log := open(t)
	const writers, each = 4, 100
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := l.Write(Entry{Event: Refused, Reason: fmt.Sprint(w, "/", i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 5 {
		testkit.Must(t, os.Rename(path, fmt.Sprint(path, ".", i)))
		testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		reopened := func() int { return log.FilterMessage("audit log reopened").Len() }
		for end := time.Now().Add(testkit.Patience); reopened() <= i; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a hangup did not reopen the file")
			}
		}
	}
	all.Wait()
	testkit.Must(t, l.Close())
	seen := map[string]int{}
	files, err := filepath.Glob(path + "*")
	testkit.Must(t, err)
	for _, f := range files {
		entries, torn := read(t, f)
		if torn != 0 {
			t.Errorf("%s has %d torn lines", f, torn)
		}
		for _, e := range entries {
			if e.Event == Refused {
				seen[e.Reason]++
			}
		}
	}
	if len(seen) != writers*each || len(files) != 6 {
		t.Errorf("%d different lines of %d in %d files", len(seen), writers*each, len(files))
	}
}

// full is a file whose disk takes so many bytes more.
type full struct {
	file
	room int
}

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.room {
		n, _ := f.file.Write(b[:f.room])
		f.room = 0
		return n, syscall.ENOSPC
	}
	f.room -= len(b)
	return f.file.Write(b)
}

func TestAFullDiskIsNotSilent(t *testing.T) {
	l, path, log := open(t)
	disk := &full{file: l.file, room: 10}
	l.file = disk
	testkit.Must(t, l.Check())
	if err := l.Write(Entry{Event: Released, Run: "r1"}); !errors.Is(err, ErrLost) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if lost := log.FilterMessage("lost a line of the audit log").FilterField(zap.String("run", "r1")).Len(); lost != 1 {
		t.Errorf("the log says %d times that the line is lost", lost)
	}
	if err := l.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("Check on a full disk: %v", err)
	}
	disk.room = 1 << 20
	testkit.Must(t, l.Check())
	testkit.Must(t, l.Write(Entry{Event: Released, Run: "r2"}))
	testkit.Must(t, l.Close())
	entries, torn := read(t, path)
	if torn != 1 || events(entries) != "started started release stopped" ||
		!strings.Contains(entries[1].Reason, "lost") || entries[2].Run != "r2" {
		t.Errorf("%d torn lines, %+v", torn, entries)
	}
}

// The start after a torn line keeps that line apart.
func TestATornLineIsKeptApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	testkit.Must(t, os.WriteFile(path, []byte(`{"event":"rel`), 0o600))
	l, err := Open(path, "node", "north/0", zap.NewNop())
	testkit.Must(t, err)
	testkit.Must(t, l.Close())
	if entries, torn := read(t, path); torn != 1 || events(entries) != "started stopped" {
		t.Errorf("%d torn, %s", torn, events(entries))
	}
}

// The page names every event.
func TestEventsAreOnThePage(t *testing.T) {
	page := string(testkit.Read(t, "../../docs/audit-log.md"))
	constants := regexp.MustCompile(`(?m)^\t\w+ += "([a-z-]+)"`)
	events := constants.FindAllStringSubmatch(string(testkit.Read(t, "entry.go")), -1)
	for _, e := range events {
		if !strings.Contains(page, "`"+e[1]+"`") {
			t.Errorf("docs/audit-log.md does not have %s", e[1])
		}
	}
	if len(events) < 20 {
		t.Errorf("%d events in entry.go", len(events))
	}
}

// unsynced is a file that takes lines and cannot put them on disk.
type unsynced struct{ file }

func (unsynced) Sync() error { return syscall.EIO }

func TestWhatIsGivenOutIsSynced(t *testing.T) {
	l, _, _ := open(t)
	l.file = unsynced{l.file}
	for event, lasting := range map[string]bool{
		Released: true, Repeated: true, RunOpened: true, RunClosed: true, Answered: true, Opened: true,
		Joined: false, Left: false, Refused: false, Leading: false,
	} {
		if err := l.Write(Entry{Event: event}); (err != nil) != lasting {
			t.Errorf("%s on a disk that fails: %v", event, err)
		}
	}
}

func TestNoPathIsNoLog(t *testing.T) {
	l, err := Open("", "node", "n", zap.NewNop())
	if l != nil || err != nil {
		t.Fatal(l, err)
	}
	if err := errors.Join(l.Write(Entry{Event: Released}), l.Check(), l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(plain, nil, 0o600))
	for _, path := range []string{filepath.Join(plain, "audit.jsonl"), t.TempDir(), "/dev/full"} {
		if _, err := os.Stat("/dev/full"); path == "/dev/full" && err != nil {
			continue
		}
		if _, err := Open(path, "node", "n", zap.NewNop()); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", path, err)
		}
	}
	l, path, _ := open(t)
	testkit.Must(t, os.Remove(path))
	testkit.Must(t, os.Mkdir(path, 0o700))
	if err := l.Reopen(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "audit_log") {
		t.Errorf("reopen on a folder: %v", err)
	}
	testkit.Must(t, l.Write(Entry{Event: Released})) // the old file is still there
}

func TestAPeerCannotWriteMuch(t *testing.T) {
	l, path, _ := open(t)
	long := strings.Repeat("ä", 1<<20)
	testkit.Must(t, l.Write(Entry{Event: Refused, Run: long, Node: long, Dataset: long, Reason: long, Method: long}))
	testkit.Must(t, l.Close())
	entries, torn := read(t, path)
	if torn != 0 || len(entries) != 3 || len(entries[1].Reason) > maxText+3 || len(entries[1].Run) > maxText+3 {
		t.Errorf("%d torn, %d entries", torn, len(entries))
	}
}
