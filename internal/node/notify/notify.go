// Package notify tells a site's people over HTTPS that a run waits for their decision: one POST of JSON, with names
// and the student's purpose, and nothing that depends on records.
//
// Begin with [New], call [Notifier.Tell] whenever a run waits, which never blocks, and start [Notifier.Run]. The
// record of posted runs survives a node's streams.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/study"
)

// Waiting is the content of a POST.
type Waiting struct {
	Site    string `json:"site"`
	Node    string `json:"node"`
	Dataset string `json:"dataset"`
	Run     string `json:"run"`
	// SpecSHA256 is the hash of the run's spec, which an approval names.
	SpecSHA256 string `json:"spec_sha256"`
	Student    string `json:"student,omitempty"` // as the aggregator names it
	Purpose    string `json:"purpose,omitempty"` // in the student's words
	// Study is what the run says about its study, or nil.
	Study *study.Block `json:"study,omitempty"`
	Since string       `json:"since"` // when the node was first asked, RFC 3339
}

// Bounds: runs remembered as posted; the time of one POST, the pauses between attempts, and the total time; how often
// waiting runs are checked; and how much of a response is read.
const (
	mostTold   = 1000
	postTime   = 10 * time.Second
	firstPause = time.Second
	mostPause  = time.Minute
	mostTrying = 15 * time.Minute
	askEvery   = 10 * time.Second
	mostAnswer = 64 << 10
)

// Notifier posts waiting runs. A nil Notifier does nothing.
type Notifier struct {
	config Config
	log    *zap.Logger
	client *http.Client
	pause  time.Duration // the first one
	wake   chan struct{} // has a value after a call of Tell

	mu   sync.Mutex
	told []*message // in order of arrival
}

// message is a waiting run and the state of its POST.
type message struct {
	Waiting
	still  func() bool
	due    time.Time // time of the next attempt
	until  time.Time // end of the attempts
	pauses *backoff.ExponentialBackOff
	over   bool // posted, or given up
}

// New returns a notifier, or nil if the configuration names no URL.
func New(c Config, log *zap.Logger) *Notifier {
	if c.URL == "" {
		return nil
	}
	return &Notifier{
		config: c, log: log, pause: firstPause, wake: make(chan struct{}, 1),
		client: &http.Client{
			Timeout: postTime,
			// The token is for this URL only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Tell posts a run once, until Forget, or until still, which is called now and then, reports that it no longer waits.
// It drops a pending post of another spec of the run. Beyond a bound it forgets the oldest run.
func (n *Notifier) Tell(w Waiting, still func() bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.told {
		if m.Run == w.Run && m.SpecSHA256 == w.SpecSHA256 {
			return
		}
		m.over = m.over || m.Run == w.Run
	}
	if len(n.told) >= mostTold {
		n.told = slices.Delete(n.told, 0, 1)
	}
	now := time.Now()
	m := &message{Waiting: w, still: still, due: now, until: now.Add(mostTrying),
		pauses: backoff.NewExponentialBackOff()}
	m.pauses.InitialInterval, m.pauses.MaxInterval = n.pause, mostPause
	n.told = append(n.told, m)
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Forget makes a run be posted again when it waits again.
func (n *Notifier) Forget(run string) {
	if n != nil {
		n.drop(func(m *message) bool { return m.Run == run })
	}
}

func (n *Notifier) drop(which func(*message) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = slices.DeleteFunc(n.told, which)
}

// Run posts until the context ends. It logs failures. A failed post delays no other.
func (n *Notifier) Run(ctx context.Context) {
	if n == nil {
		return
	}
	asking := time.NewTicker(askEvery)
	defer asking.Stop()
	for {
		m, in := n.next()
		if m != nil && in <= 0 {
			n.post(ctx, m)
			continue
		}
		var due <-chan time.Time
		if m != nil {
			due = time.After(in)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-due:
		case <-asking.C:
			n.prune()
		}
	}
}

// next is the message that is due first, and in how long; nil if there is none.
func (n *Notifier) next() (first *message, in time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.told {
		if !m.over && (first == nil || m.due.Before(first.due)) {
			first = m
		}
	}
	if first != nil {
		in = time.Until(first.due)
	}
	return first, in
}

// prune forgets the runs that no longer wait, also those that the aggregator no longer asks for.
func (n *Notifier) prune() {
	n.mu.Lock()
	told := slices.Clone(n.told)
	n.mu.Unlock()
	for _, m := range told {
		if !m.still() {
			n.drop(func(other *message) bool { return other == m })
		}
	}
}

// post posts a message if its run still waits, and sets the next attempt after a temporary failure.
func (n *Notifier) post(ctx context.Context, m *message) {
	if !m.still() {
		n.drop(func(other *message) bool { return other == m })
		return
	}
	body, err := json.Marshal(m.Waiting)
	if err == nil {
		err = n.once(ctx, body)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	about := zap.String("run", m.Run)
	var final *backoff.PermanentError
	m.due = time.Now().Add(m.pauses.NextBackOff())
	switch {
	case ctx.Err() != nil:
	case err == nil:
		m.over = true
		n.log.Info("sent a notification of a waiting run", about)
	case errors.As(err, &final) || m.due.After(m.until):
		m.over = true
		n.log.Warn("could not send a notification of a waiting run", about, zap.Error(err))
	}
}

// once posts once. Its errors omit the URL, which may be a secret.
func (n *Notifier) once(ctx context.Context, body []byte) error {
	token, err := n.config.token()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.config.URL, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(errors.New("notify: url cannot be used"))
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := n.client.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // lets the connection be reused
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 5, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return fmt.Errorf("notify: the server answered %s", codeText(code))
	default:
		return backoff.Permanent(fmt.Errorf("notify: the server answered %s; check url and token_file",
			codeText(code)))
	}
}

// codeText describes a response's code in our words: the server's text can be anything, such as the token.
func codeText(code int) string {
	return strings.TrimSpace(fmt.Sprint(code, " ", http.StatusText(code)))
}
