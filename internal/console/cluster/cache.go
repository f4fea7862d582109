package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// lookEvery is how often lists are asked for while a page shows them: more rarely where that takes long, so that
	// a large cluster is not busy with it.
	lookEvery = time.Second
	restFor   = 4 // times as long as the answer took
	// tooOld is how old a list may be that a page shows at once.
	tooOld = 10 * time.Second
)

// state is what the aggregator said last.
type state struct {
	runs    []*conclavev1.RunStatus // newest first
	budgets []*conclavev1.DatasetBudget
	nodes   []*conclavev1.NodeStatus // of operators
	number  uint64                   // another one when something is different
	at      time.Time
	took    time.Duration
}

// cache keeps what lists show: with ten thousand runs a page must not wait for all of them.
type cache struct {
	from     Aggregator
	operator bool
	turn     chan struct{} // held by who asks

	mu     sync.Mutex
	last   *state // nil before the first answer
	behind bool   // something was changed since, by this person
	kick   chan struct{}
}

func newCache(from Aggregator, operator bool) *cache {
	return &cache{from: from, operator: operator, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
}

// keep asks when a page found its list old, until the context ends.
func (c *cache) keep(ctx context.Context) {
	c.kick <- struct{}{}
	go func() {
		for {
			select {
			case <-c.kick:
				_, _ = c.newer(ctx, lookEvery) // the page that needs it says why it cannot be had
			case <-ctx.Done():
				return
			}
		}
	}()
}

// get returns the lists, not older than tooOld, and with all that this person did.
func (c *cache) get(ctx context.Context) (*state, error) {
	c.mu.Lock()
	s, behind := c.last, c.behind
	c.mu.Unlock()
	if s == nil || behind || time.Since(s.at) > tooOld {
		return c.newer(ctx, 0)
	}
	if time.Since(s.at) > lookEvery {
		select {
		case c.kick <- struct{}{}:
		default:
		}
	}
	return s, nil
}

// expire has the next page ask anew.
func (c *cache) expire() {
	c.mu.Lock()
	c.behind = true
	c.mu.Unlock()
}

// newer returns lists that are no older than so long before it was called; one caller asks at a time.
func (c *cache) newer(ctx context.Context, age time.Duration) (*state, error) {
	called := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, away(ctx, ctx.Err())
	}
	c.mu.Lock()
	s, behind := c.last, c.behind
	c.behind = false
	c.mu.Unlock()
	if s != nil && !behind && called.Sub(s.at) <= age {
		return s, nil
	}
	next, err := c.ask(ctx)
	if err != nil {
		c.mu.Lock()
		c.behind = c.behind || behind
		c.mu.Unlock()
		return nil, away(ctx, err)
	}
	next.number = 1
	if s != nil {
		next.number = s.number
		if !alike(s, next) {
			next.number++
		}
	}
	c.mu.Lock()
	c.last = next
	c.mu.Unlock()
	return next, nil
}

func (c *cache) ask(ctx context.Context) (s *state, err error) {
	s = &state{at: time.Now()}
	if s.runs, s.budgets, err = c.from.List(ctx, ""); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.runs, func(a, b *conclavev1.RunStatus) int {
		return cmp.Compare(b.GetSubmitted(), a.GetSubmitted())
	})
	if c.operator {
		if s.nodes, err = c.from.Nodes(ctx); err != nil {
			return nil, err
		}
	}
	s.took = time.Since(s.at)
	return s, nil
}

// away is the error of a call, in words where the aggregator did not answer in time.
func away(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the aggregator did not answer within %v (%w); try again when it is there", patience, err)
	}
	return err
}

func alike(a, b *state) bool {
	return same(a.runs, b.runs) && same(a.budgets, b.budgets) && same(a.nodes, b.nodes)
}

func same[M proto.Message](a, b []M) bool {
	return slices.EqualFunc(a, b, func(a, b M) bool { return proto.Equal(a, b) })
}

// follow tells a page when the lists are others than those that it shows, by their number.
func (c *cache) follow(ctx context.Context, r *http.Request, changed func()) error {
	seen, _ := strconv.ParseUint(r.URL.Query().Get("at"), 10, 64) // none is told at once
	pause := time.Duration(0)
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		s, err := c.newer(ctx, lookEvery/2)
		switch {
		case err != nil:
			pause = lookEvery
			continue
		case s.number != seen:
			seen = s.number
			changed()
		}
		pause = max(lookEvery, restFor*s.took)
	}
}

// events is the stream of a page that shows lists.
func (s *state) events() string { return "/events?at=" + strconv.FormatUint(s.number, 10) }
