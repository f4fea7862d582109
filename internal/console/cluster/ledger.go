package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/ledger"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ledgers caches read and verified ledgers, by dataset.
type ledgers struct {
	mu sync.Mutex
	of map[string]*verified
}

// verified is the result of `conclave ledger verify`, and the entries.
type verified struct {
	At      time.Time
	Found   ledger.Verification
	Problem error // nil if it verifies
	Open    []string
	Entries []ledger.Entry // newest first
}

func (c *Cluster) ledgerPages() {
	c.Get("/ledger", c.ledger)
	c.Post("/ledger/verify", c.verify)
}

// verify reads the ledger of a dataset from the aggregator, and verifies all of it.
func (c *Cluster) verify(r *http.Request) (to, say string, err error) {
	dataset := r.PostFormValue("dataset")
	to = "/ledger?dataset=" + url.QueryEscape(dataset)
	s, err := c.cache.get(r.Context())
	if err != nil {
		return to, "", err
	}
	// A ledger is requested through one of its runs.
	i := slices.IndexFunc(s.runs, func(r *conclavev1.RunStatus) bool {
		return r.GetDataset() == dataset && r.GetOpened()
	})
	if i < 0 {
		return to, "", fmt.Errorf("you have no started run on dataset %q; its ledger is available after one has "+
			"started",
			dataset)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 4*patience)
	defer cancel()
	lines, err := c.from.Ledger(ctx, s.runs[i].GetName())
	if err != nil {
		return to, "", away(ctx, err)
	}
	v := verifyLines(lines)
	c.ledgers.mu.Lock()
	if c.ledgers.of == nil {
		c.ledgers.of = map[string]*verified{}
	}
	c.ledgers.of[dataset] = v
	c.ledgers.mu.Unlock()
	if v.Problem != nil {
		return to, "", v.Problem
	}
	return to, "The ledger of " + dataset + " holds: " + strconv.Itoa(v.Found.Entries) + " entries.", nil
}

func verifyLines(lines [][]byte) *verified {
	v := &verified{At: time.Now()}
	v.Found, v.Problem = ledger.VerifyStrict(bytes.NewReader(append(bytes.Join(lines, []byte("\n")), '\n')))
	if open := new(ledger.UnclosedError); errors.As(v.Problem, &open) {
		v.Problem, v.Open = nil, open.Runs // they are still open
	}
	for _, line := range slices.Backward(lines) {
		var e ledger.Entry
		if json.Unmarshal(line, &e) == nil { // a line that does not parse is the problem
			v.Entries = append(v.Entries, e)
		}
	}
	return v
}

func (c *Cluster) ledger(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	var datasets []string
	for _, b := range s.budgets {
		datasets = append(datasets, b.GetDataset())
	}
	dataset := r.URL.Query().Get("dataset")
	if dataset == "" && len(datasets) > 0 {
		dataset = datasets[0]
	}
	data := struct {
		Datasets []string
		Dataset  string
		Read     *verified
		List     console.List[ledger.Entry]
		Types    []string
	}{Datasets: datasets, Dataset: dataset, Types: []string{
		ledger.EntryOpen, ledger.EntryRun, ledger.EntryRoster, ledger.EntryRelease, ledger.EntryAbandoned,
		ledger.EntryClose,
	}}
	c.ledgers.mu.Lock()
	data.Read = c.ledgers.of[dataset]
	c.ledgers.mu.Unlock()
	if data.Read != nil {
		data.List = console.ListOf(r, data.Read.Entries, func(e ledger.Entry) string {
			return strings.Join([]string{e.Run, e.Type, e.Day, e.Hash}, " ")
		}, func(e ledger.Entry, kind string) bool { return e.Type == kind }).With("dataset", dataset)
	}
	return console.View{Page: "ledger", Title: "Ledger", Data: data}, nil
}

// When is the time of the verification, for people.
func (v *verified) When() string { return v.At.UTC().Format("15:04:05") + " UTC" }
