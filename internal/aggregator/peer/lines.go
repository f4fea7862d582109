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

// Why lines of the audit log are left out, as metrics name them.
const (
	refusals = "refusal"
	passages = "passage"
)

const (
	// refusalBurst refusals of a certificate get a line at once, and then one in refusalEvery, with one that counts the
	// omitted lines: some 17,000 a day, however many refusals there are.
	refusalBurst = 200
	refusalEvery = 10 * time.Second
	// passageBurst nodes of a certificate that come or go have lines at once, and then one in
	// passageEvery: a site with thousands of nodes may come, go and come back.
	passageBurst = 1 << 15
	passageEvery = time.Second
)

// Lines bound the lines of the audit log that a certificate's holder causes without doing anything
// that lasts. They count those that are left out, and say so.
type Lines struct {
	leftOut func(why string, lines int)
	rates   map[string]*Rates // by why

	mu   sync.Mutex
	left map[source]map[string]uint64 // by kind: lines that nobody was told of
}

// source is a certificate whose lines are left out, and why.
type source struct {
	by  Caller
	why string
}

// NewLines returns bounds. A line that is left out is told leftOut; with 0 it shows a reason.
func NewLines(leftOut func(why string, lines int)) *Lines {
	l := &Lines{leftOut: leftOut, left: map[source]map[string]uint64{}, rates: map[string]*Rates{
		refusals: NewRates(refusalBurst, refusalEvery), passages: NewRates(passageBurst, passageEvery),
	}}
	for why := range l.rates {
		leftOut(why, 0)
	}
	return l
}

// take uses up a line of a certificate. Of a kind it counts what is left out; without one nobody has
// to be told.
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

// told is the line that says how many were left out of a source since the last that did, nil where none
// was. Who asks writes it.
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

// due are the lines that say how many were left out, of certificates that may have a line again; at
// the end of all of them. Who asks writes them.
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

// leftOutOf is the line that says how many were left out, and of which kinds.
func leftOutOf(why string, left map[string]uint64) auditlog.Entry {
	var kinds []string
	e := auditlog.Entry{Event: auditlog.LeftOut}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, left[kind]))
		e.Suppressed += left[kind]
	}
	e.Reason = why + " lines of this certificate that were left out: " + strings.Join(kinds, ", ")
	return e
}

func (c Caller) key() string { return c.Certificate + " " + c.Name }
