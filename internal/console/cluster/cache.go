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
	// The pause between full lists of runs is at least restFor times as long as a list takes, so as not to load a
	// large cluster. Meanwhile only unfinished runs, at most mostLooked, are checked.
	restFor    = 4
	mostLooked = 50
	// tooOld is how old a list may be to be shown at once.
	tooOld = 10 * time.Second
)

// state is the aggregator's last answer.
type state struct {
	runs    []*conclavev1.RunStatus // newest first
	budgets []*conclavev1.DatasetBudget
	nodes   []*conclavev1.NodeStatus // for operators
	number  uint64                   // changes when the content does
	at      time.Time                // time of the last check
	listed  time.Time                // time of the last full list
	took    time.Duration            // duration of that list
}

// cache has the content of lists: with ten thousand runs a page must not wait for all of them.
type cache struct {
	from     Aggregator
	operator bool
	turn     chan struct{} // held during requests

	mu     sync.Mutex
	last   *state          // nil before the first answer
	behind map[string]bool // runs that this person changed since; "" stands for anything else
	kick   chan struct{}
}

func newCache(from Aggregator, operator bool) *cache {
	return &cache{from: from, operator: operator, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		behind: map[string]bool{}}
}

// keep refreshes the lists when a page found them old, until the context ends.
func (c *cache) keep(ctx context.Context) {
	c.kick <- struct{}{}
	go func() {
		for {
			select {
			case <-c.kick:
				_, _ = c.newer(ctx, lookEvery) // the page that needs it reports the error
			case <-ctx.Done():
				return
			}
		}
	}()
}

// get returns lists that are not older than tooOld and include this person's actions.
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

// expire makes the next page ask again about a run that this person changed, or about the nodes if it is empty.
func (c *cache) expire(run string) {
	c.mu.Lock()
	c.behind[run] = true
	c.mu.Unlock()
}

// newer returns lists from at most age before the call; one caller asks at a time.
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

// look asks about unfinished runs, and those that this person changed.
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
		case err != nil: // this person may no longer see it, or the aggregator is away
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

// away explains the error of a call that the aggregator did not answer in time.
func away(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the aggregator did not answer within %v (%w); try again later", patience, err)
	}
	return err
}

func alike(a, b *state) bool {
	return same(a.runs, b.runs) && same(a.budgets, b.budgets) && same(a.nodes, b.nodes)
}

func same[M proto.Message](a, b []M) bool {
	return slices.EqualFunc(a, b, func(a, b M) bool { return proto.Equal(a, b) })
}

// follow notifies a page when the lists' number differs from the one that it shows.
func (c *cache) follow(ctx context.Context, r *http.Request, changed func()) error {
	seen, _ := strconv.ParseUint(r.URL.Query().Get("at"), 10, 64) // without a number it is notified at once
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		// What fails now may succeed a second later.
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

// events is the event stream of a page that shows lists.
func (s *state) events() string { return "/events?at=" + strconv.FormatUint(s.number, 10) }
