package site

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// section is a part of the text that a person reads before they decide.
type section struct{ Head, Text string }

// sectionsOf divides the text of `teacher runs RUN` at its empty lines. A first line that ends with a colon is a head.
func sectionsOf(text string) (all []section) {
	for _, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		s := section{Text: part}
		if head, rest, ok := strings.Cut(part, ":\n"); ok && !strings.Contains(head, "\n") {
			s = section{strings.ToUpper(head[:1]) + head[1:], rest}
		}
		all = append(all, s)
	}
	return all
}

// run shows what `teacher runs RUN` says of a run, and asks for a decision.
func (s *Site) run(r *http.Request) (console.View, error) {
	name, spec := r.PathValue("name"), r.URL.Query().Get("spec")
	brief, err := s.enforcer.Brief(name, spec)
	switch {
	case errors.Is(err, sitepolicy.ErrNoRun), errors.Is(err, sitepolicy.ErrSpec):
		return console.View{}, console.NotFound("%w", err)
	case err != nil:
		return console.View{}, err
	}
	var text bytes.Buffer
	review.WriteBrief(&text, brief)
	data := struct {
		row
		Sections []section
		Who      string
		MayBegin bool // an approval changes something
		MayEnd   bool
	}{row: rowOf(brief.Run), Sections: sectionsOf(text.String()), Who: s.who}
	open := brief.State != sitepolicy.StateEnded
	data.MayBegin = open && slices.Contains([]string{sitepolicy.StateWaiting, sitepolicy.StateDenied}, brief.State)
	data.MayEnd = open && brief.State != sitepolicy.StateDenied
	return console.View{Page: "run", Title: "Run " + name, Events: s.events(), Data: data}, nil
}

// decide writes a decision down, as `teacher approve` and `teacher deny` do.
func (s *Site) decide(r *http.Request) (to, say string, err error) {
	name, spec := r.PathValue("name"), r.PostFormValue("spec")
	to = "/runs/" + name + "?" + url.Values{"spec": {spec}}.Encode()
	d := sitepolicy.Decision{Sign: s.sign}
	switch r.PostFormValue("decision") {
	case "approve":
		d.Approve = true
		if d.Until, err = review.End(r.PostFormValue("until"), ""); err != nil {
			return to, "", err
		}
	case "deny":
	default:
		return to, "", errors.New("say whether the run may begin")
	}
	if spec == "" { // what the person read is what they decide about
		return to, "", errors.New("the form names no spec; open the run's page again")
	}
	decided, err := review.Decide(s.path, name, spec, d)
	if err != nil {
		return to, "", err
	}
	s.expire()
	if decided.Advance != nil {
		to = "/advance"
	}
	return to, fmt.Sprintf("%s is %s now.", name, review.StateText(*decided)), nil
}
