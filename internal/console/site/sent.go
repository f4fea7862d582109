package site

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"slices"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/console"
)

// sent is what left the node, according to its audit log.
type sent struct {
	Bytes   int64
	Answers int
	Runs    []sentRun // most recently answered first
	Unread  int       // lines that do not parse
}

// sentRun is what left the node in answers to one run.
type sentRun struct {
	Run, First, Last         string
	Answers, Opened, Refused int
	Bytes                    int64
}

// left shows what left the node.
func (s *Site) left(r *http.Request) (console.View, error) {
	v := console.View{Page: "sent", Title: "What left this node", Events: s.events()}
	data := struct {
		Path string
		Sent *sent
		List console.List[sentRun]
	}{Path: s.config.AuditLog}
	if data.Path != "" {
		read, err := s.sentNow()
		if err != nil {
			return v, err
		}
		data.Sent = read
		data.List = console.ListOf(r, read.Runs, func(r sentRun) string { return r.Run },
			func(sentRun, string) bool { return true })
	}
	v.Data = data
	return v, nil
}

// maxAuditLine bounds a line of the audit log, in bytes.
const maxAuditLine = 1 << 20

// readSent adds up the answers in an audit log. It does not see rotated files.
func readSent(path string) (*sent, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &sent{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, at := &sent{}, map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var e auditlog.Entry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			s.Unread++
			continue
		}
		if e.Run == "" || e.Event != auditlog.Answered && e.Event != auditlog.Opened && e.Event != auditlog.Refused {
			continue
		}
		i, ok := at[e.Run]
		if !ok {
			i = len(s.Runs)
			at[e.Run] = i
			s.Runs = append(s.Runs, sentRun{Run: e.Run, First: e.Time})
		}
		r := &s.Runs[i]
		r.Last = e.Time
		switch e.Event {
		case auditlog.Answered:
			r.Answers++
			s.Answers++
			r.Bytes += int64(e.Bytes)
			s.Bytes += int64(e.Bytes)
		case auditlog.Opened:
			r.Opened++
		case auditlog.Refused:
			r.Refused++
		}
	}
	slices.SortStableFunc(s.Runs, func(a, b sentRun) int { return cmp.Compare(b.Last, a.Last) })
	return s, lines.Err()
}
