// Package notify tells the people of a site over HTTPS that a run waits for their decision: one POST of JSON, with
// names and what the student says, and nothing that depends on records.
//
// Begin with [New], call [Notifier.Tell] whenever a run waits, which never blocks, and have [Notifier.Run] run.
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
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/study"
)

// Waiting is what is told of a run.
type Waiting struct {
	Site    string `json:"site"`
	Node    string `json:"node"`
	Dataset string `json:"dataset"`
	Run     string `json:"run"`
	// SpecSHA256 names its spec, which an approval is for.
	SpecSHA256 string `json:"spec_sha256"`
	Student    string `json:"student,omitempty"` // as the aggregator names them
	Purpose    string `json:"purpose,omitempty"` // in the student's words
	// Study is what the run says of its study, nil for none.
	Study *study.Block `json:"study,omitempty"`
	Since string       `json:"since"` // when the node was asked first, RFC 3339
}

// What bounds the work: runs that are remembered as told, of which each may wait to be posted; how long one POST may
// take, the pauses between attempts, and how long it is tried; and what is read of an answer.
const (
	mostTold   = 1000
	postTime   = 10 * time.Second
	firstPause = time.Second
	mostPause  = time.Minute
	mostTrying = 15 * time.Minute
	mostAnswer = 64 << 10
)

// Notifier posts. A nil one tells nobody.
type Notifier struct {
	config Config
	log    *zap.Logger
	client *http.Client
	pause  time.Duration // the first one
	queue  chan Waiting

	mu   sync.Mutex
	told map[string]map[string]bool // specs by run
	size int
}

// New returns a notifier, nil where the configuration names no address.
func New(c Config, log *zap.Logger) *Notifier {
	if c.URL == "" {
		return nil
	}
	return &Notifier{
		config: c, log: log, pause: firstPause, queue: make(chan Waiting, mostTold), told: map[string]map[string]bool{},
		client: &http.Client{
			Timeout: postTime,
			// The token is for this address and for no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Tell has a run posted, once until it is forgotten. While too many wait to be posted it does nothing.
func (n *Notifier) Tell(w Waiting) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[w.Run][w.SpecSHA256] || n.size >= mostTold {
		return
	}
	select {
	case n.queue <- w:
	default:
		return
	}
	if n.told[w.Run] == nil {
		n.told[w.Run] = map[string]bool{}
	}
	n.told[w.Run][w.SpecSHA256] = true
	n.size++
}

// Forget has a run told again when it waits again.
func (n *Notifier) Forget(run string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size -= len(n.told[run])
	delete(n.told, run)
}

// Run posts until the context ends. What could not be posted is in the log.
func (n *Notifier) Run(ctx context.Context) {
	if n == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-n.queue:
			about := zap.String("run", w.Run)
			if err := n.post(ctx, w); err != nil && ctx.Err() == nil {
				n.log.Warn("people were not told that a run waits for them", about, zap.Error(err))
			} else if err == nil {
				n.log.Info("people were told that a run waits for them", about)
			}
		}
	}
}

// post posts, again after failures that may pass.
func (n *Notifier) post(ctx context.Context, w Waiting) error {
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = n.pause, mostPause
	_, err = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, n.once(ctx, body) },
		backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(mostTrying))
	return err
}

// once posts once. Its errors do not hold the address, which may be a secret.
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
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 5, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return fmt.Errorf("notify: it answers %s", answer.Status)
	default:
		return backoff.Permanent(fmt.Errorf("notify: it answers %s; check url and token_file", answer.Status))
	}
}
