// Package accounting has the commands about the cost of releases and about claims: ledger verify and the calculator
// privacy.
package accounting

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{ledgerCommand(), privacyCommand()}
}

// privacyCommand is the calculator: what releases cost, which noise a budget needs, what a run will spend and send.
func privacyCommand() *cobra.Command {
	c := &cobra.Command{Use: "privacy COMMAND", Short: "account for releases, calibrate noise, plan a run"}
	for _, below := range []*cobra.Command{accountCommand(), calibrateCommand(), planCommand()} {
		below.RunE = interruptible(below.RunE)
		c.AddCommand(below)
	}
	return c
}

type runFunc = func(c *cobra.Command, args []string) error

// interruptible ends a purely computing command when its context ends: the computation is abandoned and ends with the
// program.
func interruptible(command runFunc) runFunc {
	return func(c *cobra.Command, args []string) error {
		done := make(chan error, 1)
		go func() { done <- command(c, args) }()
		select {
		case err := <-done:
			return err
		case <-c.Context().Done():
			return errors.New("interrupted; there is no result")
		}
	}
}

func kindNames() string {
	var names []string
	for _, k := range privacy.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// describe formats an event as in the ledger, without quotes and braces.
func describe(e privacy.Event) string {
	raw, err := json.Marshal(e)
	if err != nil {
		return string(e.Kind)
	}
	text := strings.NewReplacer("{", "", "}", "", `"`, "", ":", " ", ",", ", ").Replace(string(raw))
	return strings.TrimPrefix(text, "kind ")
}
