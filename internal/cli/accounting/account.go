package accounting

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/pate"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
)

func accountCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "account --events FILE --delta D [--format json]",
		Short: "compute the total cost of releases",
	}
	path := c.Flags().String("events", "", "`file` with a JSON list of events; - reads standard input")
	delta := c.Flags().Float64("delta", 0, "delta of the claim, between 0 and 1")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *path == "" {
			return cli.Misuse("--events: name a file of events")
		}
		if !(*delta > 0 && *delta < 1) {
			return cli.Misuse("--delta %v: give a number between 0 and 1", *delta)
		}
		answer, err := accountFile(*path, *delta)
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(answer)
		}
		printAccount(answer)
		return nil
	}
	return c
}

type accountAnswer struct {
	privacy.Price
	// Telling is how well two neighbouring datasets can be distinguished.
	Telling       meaning.Telling `json:"telling"`
	DataDependent *pate.Claim     `json:"data_dependent"`
}

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
	if answer.Price, err = privacy.Account(events, delta); err != nil {
		return answer, fmt.Errorf("%s: %w", path, err)
	}
	if answer.Telling, err = meaning.Tell(events, answer.Epsilon, delta); err != nil {
		return answer, fmt.Errorf("%s: %w", path, err)
	}
	if withVotes {
		claim, err := pate.DataDependent(voted, delta)
		if err != nil {
			return answer, fmt.Errorf("%s: %w", path, err)
		}
		answer.DataDependent = &claim
	}
	return answer, nil
}

func readEvents(path string) ([]pate.VotedEvent, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the events: %w", err)
		}
		defer file.Close()
		in = file
	}
	events, err := pate.ParseEvents(in)
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
	printTelling(a.Telling, meaning.Guarantee{Epsilon: a.Epsilon, Delta: a.Delta})
	if a.DataDependent == nil {
		return
	}
	fmt.Println("for these votes only, and as private as the votes (do not publish):")
	fmt.Printf("  %-16s %s\n", "rdp", figure(a.DataDependent.RDP))
	fmt.Printf("  %-16s %s\n", "pategan_moments", figure(a.DataDependent.PATEGANMoments))
}

// printTelling explains an (epsilon, delta).
func printTelling(t meaning.Telling, g meaning.Guarantee) {
	fmt.Printf("%s protection: %s (%s)\n", g.Strength(), g.Why(), meaning.Source)
	fmt.Println(t.Sentence("one unit"))
	for _, warning := range g.Warnings() {
		fmt.Println("warning: " + warning)
	}
}

func figure(epsilon *float64) string {
	if epsilon == nil {
		return "no figure"
	}
	return fmt.Sprintf("%.9g", *epsilon)
}
