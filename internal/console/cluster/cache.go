package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// lookEvery is how often the aggregator is asked while a page shows lists.
	lookEvery = 500 * time.Millisecond
	// The whole list of runs is asked for at most as often as leaves restFor times as long in between as it takes, so
	// that a large cluster is not busy with it. Meanwhile runs that have not ended are looked at, mostLooked of them.
	restFor    = 4
	mostLooked = 50
	// tooOld is how old a list may be that a page shows at once.
	tooOld = 10 * time.Second
)

// state is what the aggregator said last.
type state struct {
	runs    []*conclavev1.RunStatus // newest first
	budgets []*conclavev1.DatasetBudget
	nodes   []*conclavev1.NodeStatus // of operators
	number  uint64                   // another one when something is different
	at      time.Time                // when it was looked at last
	listed  time.Time                // when the whole list came
	took    time.Duration            // that it took
}

// cache keeps what lists show: with ten thousand runs a page must not wait for all of them.
type cache struct {
	from     Aggregator
	operator bool
	turn     chan struct{} // held by who asks

	mu     sync.Mutex
	last   *state          // nil before the first answer
	behind map[string]bool // runs that this person changed since, "" for anything else
	kick   chan struct{}
}

func newCache(from Aggregator, operator bool) *cache {
	return &cache{from: from, operator: operator, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		behind: map[string]bool{}}
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
	s, behind := c.last, len(c.behind) > 0
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

// expire has the next page ask anew about a run that this person changed, or about the nodes where it is empty.
func (c *cache) expire(run string) {
	c.mu.Lock()
	c.behind[run] = true
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
	c.behind = map[string]bool{}
	c.mu.Unlock()
	if s != nil && len(behind) == 0 && called.Sub(s.at) <= age {
		return s, nil
	}
	var next *state
	var err error
	if s == nil || time.Since(s.listed) > max(lookEvery, restFor*s.took) {
		next, err = c.list(ctx)
	} else {
		next, err = c.look(ctx, s, behind)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		maps.Copy(c.behind, behind)
		return nil, away(ctx, err)
	}
	next.number = 1
	if s != nil {
		next.number = s.number
		if !alike(s, next) {
			next.number++
		}
	}
	c.last = next
	return next, nil
}

// list asks for all runs.
func (c *cache) list(ctx context.Context) (s *state, err error) {
	began := time.Now()
	s = &state{at: began, listed: began}
	if s.runs, s.budgets, err = c.from.List(ctx, ""); err != nil {
		return nil, err
	}
	s.took = time.Since(began)
	s.order()
	return s, c.readNodes(ctx, s)
}

func (s *state) order() {
	slices.SortStableFunc(s.runs, func(a, b *conclavev1.RunStatus) int {
		return cmp.Compare(b.GetSubmitted(), a.GetSubmitted())
	})
}

func (c *cache) readNodes(ctx context.Context, s *state) (err error) {
	if c.operator {
		s.nodes, err = c.from.Nodes(ctx)
	}
	return err
}

// look asks about runs that have not ended, and those that this person changed.
func (c *cache) look(ctx context.Context, last *state, changed map[string]bool) (*state, error) {
	s := *last
	s.at, s.runs = time.Now(), slices.Clone(last.runs)
	names := slices.Collect(maps.Keys(changed))
	for _, state := range []conclavev1.RunState{
		conclavev1.RunState_RUN_STATE_RUNNING, conclavev1.RunState_RUN_STATE_WAITING,
	} {
		for _, r := range s.runs {
			if r.GetState() == state && !changed[r.GetName()] && len(names) < mostLooked+len(changed) {
				names = append(names, r.GetName())
			}
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		i := slices.IndexFunc(s.runs, func(r *conclavev1.RunStatus) bool { return r.GetName() == name })
		now, err := c.from.Show(ctx, name)
		switch {
		case errors.Is(err, student.ErrNotHeld) && i >= 0:
			s.runs = slices.Delete(s.runs, i, i+1)
		case errors.Is(err, student.ErrNotHeld):
		case err != nil: // it is no longer this person's to see, or the aggregator is away
			return c.list(ctx)
		case i >= 0:
			s.runs[i] = now.GetRun()
		default:
			s.runs = append(s.runs, now.GetRun())
			s.order()
		}
	}
	return &s, c.readNodes(ctx, &s)
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
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		// What cannot be had now may be a second later.
		if s, err := c.newer(ctx, lookEvery/2); err == nil && s.number != seen {
			seen = s.number
			changed()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// events is the stream of a page that shows lists.
func (s *state) events() string { return "/events?at=" + strconv.FormatUint(s.number, 10) }
