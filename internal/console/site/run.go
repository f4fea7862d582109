package site

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// section is a part of the text that a person reads before a decision.
type section struct {
	Head  string
	Lines []line
}

// line is a line of a section and its indentation.
type line struct {
	Indent int
	Text   string
}

// gaps matches the spaces that align columns in a terminal.
var gaps = regexp.MustCompile(` {2,}`)

// sectionsOf splits the text of `teacher runs RUN` at its empty lines. A first line that ends with a colon is a
// heading.
func sectionsOf(text string) (all []section) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		s := section{}
		for text := range strings.SplitSeq(part, "\n") {
			trimmed := strings.TrimLeft(text, " ")
			if head, ok := strings.CutSuffix(text, ":"); ok && s.Head == "" && len(s.Lines) == 0 {
				s.Head = strings.ToUpper(head[:1]) + head[1:]
				continue
			}
			s.Lines = append(s.Lines, line{min(2, (len(text)-len(trimmed))/2), gaps.ReplaceAllString(trimmed, " · ")})
		}
		all = append(all, s)
	}
	return all
}

// run shows the text of `teacher runs RUN`, and asks for a decision.
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
		MayBegin bool // an approval would have an effect
		MayEnd   bool
	}{row: rowOf(brief.Run), Sections: sectionsOf(text.String()), Who: s.who}
	open := brief.State != sitepolicy.StateEnded
	data.MayBegin = open && slices.Contains([]string{sitepolicy.StateWaiting, sitepolicy.StateDenied}, brief.State)
	data.MayEnd = open && brief.State != sitepolicy.StateDenied
	return console.View{Page: "run", Title: "Run " + name, Events: s.events(), Data: data}, nil
}

// decide records a decision, as `teacher approve` and `teacher deny` do.
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
		return to, "", errors.New("choose approve or deny")
	}
	if spec == "" { // the decision is about exactly what the person read
		return to, "", errors.New("the form has no spec; open the run's page again")
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
