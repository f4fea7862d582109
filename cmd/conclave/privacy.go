package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

const privacyUsage = `usage: conclave privacy account   --events FILE --delta D [--format json]
       conclave privacy calibrate --kind KIND --epsilon E --delta D (--queries N | --noise X) [--format json]
       conclave privacy plan      --run run.yaml [--site-teachers N] [--format json]`

// privacyCommand is the calculator: what releases cost, which noise a budget
// wants, what a run will spend and send.
func privacyCommand(ctx context.Context, args []string) error {
	return among(ctx, args, privacyUsage, map[string]commandFunc{
		"account": interruptible(account), "calibrate": interruptible(calibrate), "plan": interruptible(plan),
	})
}

// interruptible ends a command that only computes when the context does: it is
// given up where it stands, and ends with the program.
func interruptible(command commandFunc) commandFunc {
	return func(ctx context.Context, args []string) error {
		done := make(chan error, 1)
		go func() { done <- command(ctx, args) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return errors.New("interrupted before there was an answer")
		}
	}
}

// accountAnswer is the answer of `privacy account`.
type accountAnswer struct {
	privacy.Claim
	DataDependent *privacy.DataDependentClaim `json:"data_dependent"`
}

func account(_ context.Context, args []string) error {
	f := flags("privacy account", "privacy account --events FILE --delta D [--format json]")
	path := f.String("events", "", "JSON list of events, - for standard input")
	delta := f.Float64("delta", 0, "delta of the claim, between 0 and 1")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *path == "" {
		return misuse(f, "--events: name a file of events")
	}
	if !(*delta > 0 && *delta < 1) {
		return misuse(f, "--delta %v: give a number between 0 and 1", *delta)
	}
	answer, err := accountFile(*path, *delta)
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(answer)
	}
	printAccount(answer)
	return nil
}

// accountFile is the answer for a file of events.
func accountFile(path string, delta float64) (answer accountAnswer, err error) {
	voted, err := readEvents(path)
	if err != nil {
		return answer, err
	}
	events, withVotes := make([]privacy.Event, len(voted)), false
	for i, v := range voted {
		events[i] = v.Event
		withVotes = withVotes || len(v.Votes) > 0
	}
	if answer.Claim, err = privacy.Account(events, delta); err != nil {
		return answer, fmt.Errorf("%s: %w", path, err)
	}
	if withVotes {
		claim, err := privacy.DataDependent(voted, delta)
		if err != nil {
			return answer, fmt.Errorf("%s: %w", path, err)
		}
		answer.DataDependent = &claim
	}
	return answer, nil
}

func readEvents(path string) ([]privacy.VotedEvent, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the events: %w", err)
		}
		defer file.Close()
		in = file
	}
	events, err := privacy.ParseEvents(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return events, nil
}

func printAccount(a accountAnswer) {
	fmt.Printf("epsilon %.9g at delta %g, by %s; for all datasets\n", a.Epsilon, a.Delta, a.Accountant)
	for _, name := range privacy.Accountants() {
		fmt.Printf("  %-16s %s\n", name, figure(a.ByAccountant[name]))
	}
	if a.DataDependent == nil {
		return
	}
	fmt.Println("for these votes only, and as private as they are (do not publish):")
	fmt.Printf("  %-16s %s\n", "rdp", figure(a.DataDependent.RDP))
	fmt.Printf("  %-16s %s\n", "pategan_moments", figure(a.DataDependent.PATEGANMoments))
}

func figure(epsilon *float64) string {
	if epsilon == nil {
		return "no figure"
	}
	return fmt.Sprintf("%.9g", *epsilon)
}

func kindNames() string {
	var names []string
	for _, k := range privacy.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// describe writes an event as the ledger has it, without quotes and braces.
func describe(e privacy.Event) string {
	raw, err := json.Marshal(e)
	if err != nil {
		return string(e.Kind)
	}
	text := strings.NewReplacer("{", "", "}", "", `"`, "", ":", " ", ",", ", ").Replace(string(raw))
	return strings.TrimPrefix(text, "kind ")
}
