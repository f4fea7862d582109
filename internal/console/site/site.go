package site

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

//go:embed pages
var pages embed.FS

// Options configure a site's console.
type Options struct {
	Listen string // a loopback address
	Config string // path of the node's file
	// As and Key are files of the person's certificate, of role approver, and its key; empty if the policy names no
	// approvers.
	As, Key string
}

// Site serves the pages.
type Site struct {
	*console.Console
	path     string
	config   node.Config
	enforcer *sitepolicy.Enforcer // read-only
	sign     func(attest.Statement) (attest.Signature, error)
	who      string
	monitor  *http.Client

	mu     sync.Mutex
	status cached[*sitepolicy.Status]
	sent   cached[*sent]
}

// New makes the pages for a node's site.
func New(o Options) (*Site, error) {
	s := &Site{path: o.Config, who: review.Whoami(), monitor: &http.Client{Timeout: probeTimeout}}
	var err error
	if s.sign, err = review.Signer(o.As, o.Key); err != nil {
		return nil, err
	}
	if o.As != "" {
		s.who = "the holder of " + o.As
	}
	if s.enforcer, s.config, err = review.Open(o.Config, true); err != nil {
		return nil, err
	}
	own, err := fs.Sub(pages, "pages")
	if err != nil {
		return nil, err
	}
	s.Console, err = console.New(o.Listen, "site "+s.config.Site+", node "+s.config.Node, []console.Link{
		{Path: "/", Text: "Overview"}, {Path: "/runs", Text: "Runs"}, {Path: "/advance", Text: "In advance"},
		{Path: "/ledger", Text: "Ledger"}, {Path: "/sent", Text: "What left"},
	}, own)
	if err != nil {
		return nil, err
	}
	s.Events("/events", s.follow)
	s.Get("/{$}", s.overview)
	s.Get("/runs", s.runs)
	s.Get("/runs/{name}", s.run)
	s.Post("/runs/{name}/decide", s.decide)
	s.Get("/advance", s.advance)
	s.Post("/advance", s.approveAdvance)
	s.Get("/ledger", s.ledger)
	s.Get("/sent", s.left)
	return s, nil
}

// Run serves the console of a site until the context ends. It calls opened with its address.
func Run(ctx context.Context, o Options, opened func(address string) error) error {
	s, err := New(o)
	if err != nil {
		return err
	}
	if err := opened(s.Address()); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Serve(ctx)
}

func (s *Site) overview(r *http.Request) (console.View, error) {
	status, err := s.current()
	if err != nil {
		return console.View{}, err
	}
	data := struct {
		*sitepolicy.Status
		State       nodeState
		Waiting     []row
		Recent      []row
		Certificate ending
	}{Status: status, State: s.probe(r.Context()), Certificate: s.certificate()}
	for _, run := range newest(status.Runs) {
		if run.State == sitepolicy.StateWaiting {
			data.Waiting = append(data.Waiting, rowOf(run))
		}
	}
	for _, run := range newest(status.Runs)[:min(len(status.Runs), 8)] {
		data.Recent = append(data.Recent, rowOf(run))
	}
	data.Waiting = data.Waiting[:min(len(data.Waiting), 50)] // the page of runs has all of them
	return console.View{Page: "overview", Title: "Overview", Events: s.events(), Data: data}, nil
}

// row is a run in a table.
type row struct {
	sitepolicy.Run
	Path, Text, Most string
	Pipeline         string
	Purpose          string
}

func rowOf(r sitepolicy.Run) row {
	v := row{Run: r, Path: "/runs/" + r.Run + "?spec=" + r.SpecSHA256, Text: review.StateText(r),
		Most: review.MostText(r)}
	if r.Spec != nil {
		v.Pipeline, v.Purpose = r.Spec.Pipeline, r.Spec.Purpose
	}
	return v
}

// newest sorts runs, most recently seen first.
func newest(runs []sitepolicy.Run) []sitepolicy.Run {
	all := make([]sitepolicy.Run, len(runs))
	for i, r := range runs {
		all[len(runs)-1-i] = r
	}
	return all
}

func (s *Site) runs(r *http.Request) (console.View, error) {
	status, err := s.current()
	if err != nil {
		return console.View{}, err
	}
	list := console.ListOf(r, newest(status.Runs), func(r sitepolicy.Run) string {
		text := []string{r.Run, r.Requester, r.SpecSHA256}
		if r.Spec != nil {
			text = append(text, r.Spec.Pipeline, r.Spec.Purpose)
		}
		return strings.Join(text, " ")
	}, func(r sitepolicy.Run, state string) bool { return r.State == state })
	data := struct {
		List   console.List[sitepolicy.Run]
		Rows   []row
		States []string
	}{List: list, States: []string{sitepolicy.StateWaiting, sitepolicy.StateApproved, sitepolicy.StateAutomatic,
		sitepolicy.StateDenied, sitepolicy.StateRefused, sitepolicy.StateEnded}}
	for _, run := range list.Rows {
		data.Rows = append(data.Rows, rowOf(run))
	}
	return console.View{Page: "runs", Title: "Runs that asked this node", Events: s.events(), Data: data}, nil
}
