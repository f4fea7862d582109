// Command conclave is the operator's and the newcomer's command: local runs,
// the demo, sampling, ledgers and certificates.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-dp/conclave/run"
)

// command is one of conclave's commands.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"demo", "train on the shipped example, end to end", demo},
		{"local", "run a run.yaml on a cluster of its own on this machine", localRun},
		{"sample", "draw more rows from a trained model", sample},
		{"ledger", "verify a ledger and its certificate", ledger},
		{"certs", "make an authority and certificates for a cluster", certificates},
		{"version", "print the version", func(context.Context, []string) error {
			fmt.Println(run.Software)
			return nil
		}},
	}
}

// errUsage marks wrong usage; the message has been shown.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "conclave:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, args[1:])
			}
		}
	}
	help := len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help")
	if len(args) > 0 && !help {
		fmt.Fprintf(os.Stderr, "conclave: unknown command %q\n", args[0])
	}
	fmt.Fprintln(os.Stderr, "usage: conclave COMMAND [flags]; conclave COMMAND --help shows a command's flags")
	for _, c := range commands() {
		fmt.Fprintf(os.Stderr, "  %-8s %s\n", c.name, c.summary)
	}
	if help {
		return nil
	}
	return errUsage
}

// flags makes a flag set that reports wrong usage as errUsage.
func flags(name, usage string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: conclave", usage)
		f.PrintDefaults()
	}
	return f
}

func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if f.NArg() > 0 {
		return misuse(f, "unexpected argument %q", f.Arg(0))
	}
	return nil
}

func misuse(f *flag.FlagSet, format string, args ...any) error {
	fmt.Fprintf(f.Output(), "conclave: "+format+"\n", args...)
	f.Usage()
	return errUsage
}
