package peer

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// linesOf reads an audit log.
func linesOf(t *testing.T, path string) (entries []auditlog.Entry) {
	t.Helper()
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e auditlog.Entry
		testkit.Must(t, json.Unmarshal(s.Bytes(), &e))
		entries = append(entries, e)
	}
	return entries
}

// A day of continuous refusals has few lines. Each line after a gap follows one that counts the omitted lines by
// kind. No count is lost, and nothing is kept for quiet peers.
func TestRefusalsWithoutEndHaveFewLines(t *testing.T) {
	now, path := time.Unix(1e9, 0), filepath.Join(t.TempDir(), "audit.log")
	file, err := auditlog.Open(path, "aggregator", "agg", zap.NewNop())
	testkit.Must(t, err)
	counted := map[string]int{}
	log := AuditLog{Log: file, Lines: NewLines(func(why string, lines int) { counted[why] += lines })}
	for _, r := range log.Lines.rates {
		r.now = func() time.Time { return now }
	}
	eve, lab := Caller{"student/eve", "e"}, Caller{"student/lab", "1"}
	denied, invalid := fault.Deniedf("it may not"), fault.Invalidf("it is wrong")
	refused := 0
	for end := now.Add(24 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		log.Refusal(eve, denied, auditlog.Entry{})
		log.Refusal(eve, invalid, auditlog.Entry{})
		log.Refusal(eve, fault.ErrStopping, auditlog.Entry{}) // not a refusal
		log.Flush(false)
		refused += 2
	}
	if !log.Refusal(lab, denied, auditlog.Entry{}) {
		t.Error("another certificate has no line")
	}
	now = now.Add(time.Hour)
	log.Flush(false)
	testkit.Must(t, file.Close())

	lines, left, both := 0, uint64(0), false
	entries := linesOf(t, path)
	for _, e := range entries {
		switch {
		case e.Event == auditlog.Refused && e.Peer == eve.Name:
			lines++
		case e.Event == auditlog.LeftOut && e.Peer == eve.Name && e.Certificate == eve.Certificate:
			left += e.Suppressed
			both = both || e.Reason == "refusal lines of this certificate were left out: InvalidArgument 10, "+
				"PermissionDenied 9" || e.Reason == "refusal lines of this certificate were left out: "+
				"InvalidArgument 9, PermissionDenied 10"
		}
	}
	if most := 24*60*6 + refusalBurst; lines > most || len(entries) > 2*most+4 {
		t.Errorf("%d refusals and %d lines in all, want %d at most", lines, len(entries), most)
	}
	if lines+int(left) != refused || counted[refusals] != int(left) || !both {
		t.Errorf("%d refusals have a line, %d are said to have none, %d are counted, of %d; kinds are told: %v", lines,
			left, counted[refusals], refused, both)
	}
	now = now.Add(time.Hour)
	if _, told := log.Lines.rates[refusals].Take("anybody"); !told || len(log.Lines.left) != 0 ||
		len(log.Lines.rates[refusals].of) != 1 {
		t.Errorf("%d and %d certificates are remembered", len(log.Lines.left), len(log.Lines.rates[refusals].of))
	}
}

// A site whose nodes all join, leave and return gets all lines; a site whose nodes do so continuously does not. Its
// refusals are counted separately.
func TestNodesThatComeAndGoHaveLines(t *testing.T) {
	now := time.Unix(1e9, 0)
	counted := map[string]int{}
	log := AuditLog{Lines: NewLines(func(why string, lines int) { counted[why] += lines })}
	for _, r := range log.Lines.rates {
		r.now = func() time.Time { return now }
	}
	site := Caller{"node/north", "1"}
	for i := range passageBurst + 10 {
		event := auditlog.Joined
		if i%2 > 0 {
			event = auditlog.Left
		}
		if wrote := log.Passage(site, auditlog.Entry{Event: event}); wrote != (i < passageBurst) {
			t.Fatalf("line %d: written is %v", i, wrote)
		}
	}
	if !log.Refusal(site, fault.Errorf(codes.PermissionDenied, "banned"), auditlog.Entry{}) {
		t.Error("a refusal has no line")
	}
	due := log.Lines.due(true)[site]
	if len(due) != 1 || due[0].Suppressed != 10 || counted[passages] != 10 ||
		due[0].Reason != "passage lines of this certificate were left out: join 5, leave 5" {
		t.Errorf("%+v", due)
	}
}
