package peer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/auditlog"
)

// Why audit log lines are omitted, as metrics name it.
const (
	refusals = "refusal"
	passages = "passage"
)

const (
	// refusalBurst refusals of a certificate get a line at once. After that one in each refusalEvery gets a line,
	// with another that counts the omitted ones: some 17,000 a day, however many refusals there are.
	refusalBurst = 200
	refusalEvery = 10 * time.Second
	// passageBurst joins and departures of a certificate's nodes get a line at once, and after that one in each
	// passageEvery. A site with thousands of nodes may leave and return without a gap.
	passageBurst = 1 << 15
	passageEvery = time.Second
)

// Lines limit the audit log lines that a certificate can cause without a lasting effect. Omitted lines are counted
// and reported.
type Lines struct {
	leftOut func(why string, lines int)
	rates   map[string]*Rates // by why

	mu   sync.Mutex
	left map[source]map[string]uint64 // by kind: omitted lines that are not reported yet
}

// source is a certificate whose lines are omitted, and why.
type source struct {
	by  Caller
	why string
}

// NewLines returns limits. It reports omitted lines to leftOut; 0 lines make a reason visible.
func NewLines(leftOut func(why string, lines int)) *Lines {
	l := &Lines{leftOut: leftOut, left: map[source]map[string]uint64{}, rates: map[string]*Rates{
		refusals: NewRates(refusalBurst, refusalEvery), passages: NewRates(passageBurst, passageEvery),
	}}
	for why := range l.rates {
		leftOut(why, 0)
	}
	return l
}

// take uses up a line of a certificate. With a kind it counts an omitted line; without one nothing is reported.
func (l *Lines) take(by Caller, why, kind string) bool {
	if l == nil {
		return true
	}
	if _, ok := l.rates[why].Take(by.key()); ok {
		return true
	}
	if kind == "" {
		return false
	}
	l.leftOut(why, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := source{by, why}
	if l.left[s] == nil {
		l.left[s] = map[string]uint64{}
	}
	l.left[s][kind]++
	return false
}

// told is a line that counts a source's omitted lines since the last report, or nil if there are none. The caller
// writes it.
func (l *Lines) told(s source) []auditlog.Entry {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.left[s]
	if left == nil {
		return nil
	}
	delete(l.left, s)
	return []auditlog.Entry{leftOutOf(s.why, left)}
}

// due are the lines that report omissions, for certificates that may have a line again, or at the end for all. The
// caller writes them.
func (l *Lines) due(end bool) map[Caller][]auditlog.Entry {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	due := map[Caller][]auditlog.Entry{}
	for s, left := range l.left {
		if _, ok := l.rates[s.why].Take(s.by.key()); ok || end {
			due[s.by] = append(due[s.by], leftOutOf(s.why, left))
			delete(l.left, s)
		}
	}
	return due
}

// leftOutOf is the line that counts the omitted lines by kind.
func leftOutOf(why string, left map[string]uint64) auditlog.Entry {
	var kinds []string
	e := auditlog.Entry{Event: auditlog.LeftOut}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, left[kind]))
		e.Suppressed += left[kind]
	}
	e.Reason = why + " lines of this certificate were left out: " + strings.Join(kinds, ", ")
	return e
}

func (c Caller) key() string { return c.Certificate + " " + c.Name }
