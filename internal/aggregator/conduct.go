package aggregator

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

const (
	// conductWindow is how long what a peer did is remembered, and how long it stays out.
	conductWindow = 10 * time.Minute
	// maxStrikes is how many of a node's messages may be rejected in that time, and
	// maxSiteStrikes how many of a site's streams may fail before there is a node.
	maxStrikes     = 64
	maxSiteStrikes = 256
	// maxJoins is how often a node may join in that time: each is written to etcd.
	maxJoins = 600
	// maxOffenders bounds the records; those that are over go first.
	maxOffenders = 1 << 14
)

// offender is a node, or a site where node is empty. The site is that of the certificate.
type offender struct{ site, dataset, node string }

// conduct remembers who sent what must not be sent, and who is put out for it. It lives as
// long as the server: one that takes over begins anew.
type conduct struct {
	now func() time.Time

	mu sync.Mutex
	of map[offender]*behaviour
}

// behaviour is what a peer did in one window.
type behaviour struct {
	since          time.Time
	strikes, joins int
	out            bool
	why            error // the last
}

func newConduct() *conduct {
	return &conduct{now: time.Now, of: map[offender]*behaviour{}}
}

// recall returns the record of the window that goes on. Callers hold c.mu.
func (c *conduct) recall(o offender) *behaviour {
	now := c.now()
	if b := c.of[o]; b != nil && now.Sub(b.since) < conductWindow {
		return b
	}
	if len(c.of) >= maxOffenders {
		c.forget(now)
	}
	b := &behaviour{since: now}
	c.of[o] = b
	return b
}

// forget drops records that are over and, where that is not enough, those of who is not out.
func (c *conduct) forget(now time.Time) {
	for o, b := range c.of {
		if now.Sub(b.since) >= conductWindow {
			delete(c.of, o)
		}
	}
	for o, b := range c.of {
		if len(c.of) < maxOffenders/2 {
			return
		}
		if !b.out {
			delete(c.of, o)
		}
	}
}

// strike notes something that was rejected. The error says that it was once too often.
func (c *conduct) strike(o offender, why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.recall(o)
	b.strikes++
	b.why = why
	most := maxStrikes
	if o.node == "" {
		most = maxSiteStrikes
	}
	if b.strikes < most {
		return nil
	}
	return c.putOut(o, b)
}

// join notes that a node joins. The error says that it may not.
func (c *conduct) join(o offender) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.recall(o)
	if b.out {
		return c.standing(o, b)
	}
	if b.joins++; b.joins > maxJoins {
		b.why = refusedf("it joined %d times within %v", maxJoins, conductWindow)
		return c.putOut(o, b)
	}
	return nil
}

// admits is nil, or why a site may open no stream.
func (c *conduct) admits(o offender) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.of[o]; b != nil && b.out && c.now().Sub(b.since) < conductWindow {
		return c.standing(o, b)
	}
	return nil
}

// putOut begins the time that a peer stays out, unless it is out.
func (c *conduct) putOut(o offender, b *behaviour) error {
	first := !b.out
	if first {
		b.out, b.since = true, c.now()
	}
	err := c.standing(o, b)
	err.first = first
	return err
}

// standing is why a peer is out, and for how long.
func (c *conduct) standing(o offender, b *behaviour) *putOut {
	who := "site " + o.site
	if o.node != "" {
		who = "node " + o.site + "/" + o.node
	}
	left := (conductWindow - c.now().Sub(b.since)).Round(time.Second)
	return &putOut{fault: fault{codes.PermissionDenied, fmt.Errorf(
		"%s is put out: too much of what it sent was rejected, the last because: %w; mend that, it may come back in %v", who, b.why, left)}}
}

// putOut is the error of a peer that is out. Only the first is worth a line in a log: who
// is out may ask again without end.
type putOut struct {
	fault
	first bool
}

// quiet says whether an error repeats that a peer is out.
func quiet(err error) bool {
	var p *putOut
	return errors.As(err, &p) && !p.first
}
