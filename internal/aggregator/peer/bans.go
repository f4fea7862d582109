package peer

import (
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

const (
	// banWindow is how long misbehavior is remembered, and how long a ban lasts.
	banWindow = 10 * time.Minute
	// maxStrikes bounds a node's rejected messages in that time; maxSiteStrikes bounds a site's streams that fail
	// before they name a node.
	maxStrikes     = 64
	maxSiteStrikes = 256
	// maxJoins bounds how often a node may join in that time: each join is written to etcd.
	maxJoins = 600
	// maxOffenders bounds the records. Expired records are removed first.
	maxOffenders = 1 << 14
)

// Offender is a node, or a site if Node is empty. The site is from the certificate.
type Offender struct{ Site, Dataset, Node string }

func (o Offender) String() string {
	if o.Node == "" {
		return "site " + o.Site
	}
	return "node " + o.Site + "/" + o.Node
}

// Bans tracks misbehaving peers and bans repeat offenders. It lives as long as the server: a new leader starts
// without bans.
type Bans struct {
	now func() time.Time

	mu      sync.Mutex
	records map[Offender]*record
}

// record is the misbehavior of a peer in one window.
type record struct {
	since          time.Time
	strikes, joins int
	banned         bool
	why            error // the last reason
}

// NewBans returns an empty Bans.
func NewBans() *Bans { return &Bans{now: time.Now, records: map[Offender]*record{}} }

// BannedError is the error of a peer that is banned.
type BannedError struct {
	// First is set on the error that starts the ban. Only that one is worth a log line: a banned peer may retry
	// endlessly.
	First bool
	err   error
}

func (e *BannedError) Error() string { return e.err.Error() }

// Unwrap returns why the peer is banned.
func (e *BannedError) Unwrap() error { return e.err }

// Banned returns err as the error of a banned peer, or nil if it is another error.
func Banned(err error) *BannedError {
	var b *BannedError
	errors.As(err, &b)
	return b
}

// Strike records a rejected message. It returns an error if the peer is now banned.
func (b *Bans) Strike(o Offender, why error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.current(o)
	r.strikes++
	r.why = why
	most := maxStrikes
	if o.Node == "" {
		most = maxSiteStrikes
	}
	if r.strikes < most {
		return nil
	}
	return b.ban(o, r)
}

// Join records a join. It returns an error if the node must not join.
func (b *Bans) Join(o Offender) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.current(o)
	if r.banned {
		return b.banned(o, r)
	}
	if r.joins++; r.joins > maxJoins {
		r.why = fault.Refusedf("it joined %d times within %v", maxJoins, banWindow)
		return b.ban(o, r)
	}
	return nil
}

// Check returns nil, or why a site may open no stream.
func (b *Bans) Check(o Offender) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.records[o]; r != nil && r.banned && b.now().Sub(r.since) < banWindow {
		return b.banned(o, r)
	}
	return nil
}

// current returns the peer's record in the current window. Callers hold b.mu.
func (b *Bans) current(o Offender) *record {
	now := b.now()
	if r := b.records[o]; r != nil && now.Sub(r.since) < banWindow {
		return r
	}
	if len(b.records) >= maxOffenders {
		b.evict(now)
	}
	r := &record{since: now}
	b.records[o] = r
	return r
}

// evict removes expired records and, if that is not enough, records of peers that are not banned.
func (b *Bans) evict(now time.Time) {
	for o, r := range b.records {
		if now.Sub(r.since) >= banWindow {
			delete(b.records, o)
		}
	}
	for o, r := range b.records {
		if len(b.records) < maxOffenders/2 {
			return
		}
		if !r.banned {
			delete(b.records, o)
		}
	}
}

// ban starts a ban unless one is active.
func (b *Bans) ban(o Offender, r *record) error {
	first := !r.banned
	if first {
		r.banned, r.since = true, b.now()
	}
	err := b.banned(o, r)
	err.First = first
	return err
}

// banned says why a peer is banned and for how long.
func (b *Bans) banned(o Offender, r *record) *BannedError {
	left := (banWindow - b.now().Sub(r.since)).Round(time.Second)
	return &BannedError{err: fault.Errorf(codes.PermissionDenied,
		"%v is banned: too many of its messages were rejected, the last because: %w; fix this, and connect again in %v",
		o, r.why, left)}
}
