package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// command is one of the site's own commands, beside the node itself.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"preflight", "check everything that a node needs, and name what to mend", preflightCommand},
		{"dry-run", "show what would leave this site, and what the policy says", dryRunCommand},
		{"runs", "list the runs that asked this node, and what they were charged", runsCommand},
		{"approve", "let a run that waits begin", func(ctx context.Context, args []string) error { return decide(ctx, "approve", args) }},
		{"deny", "refuse a run, or stop one that was let begin", func(ctx context.Context, args []string) error { return decide(ctx, "deny", args) }},
	}
}

// errUsage marks wrong usage; the message has been shown.
var errUsage = errors.New("usage")

// flags makes the flags of a command: --config and, with formats, --format.
func flags(name, usage string) (f *flag.FlagSet, path, format *string) {
	f = flag.NewFlagSet(name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: teacher", usage)
		f.PrintDefaults()
	}
	path = f.String("config", "", "path of the node's YAML file")
	format = f.String("format", "text", "how to print the result: text or json")
	return f, path, format
}

// parse reads the arguments; so many words may follow the flags, or stand before them.
func parse(f *flag.FlagSet, args []string, words int) ([]string, error) {
	out, usage := f.Output(), f.Usage
	f.SetOutput(io.Discard) // it would print the whole usage after any mistake
	f.Usage = nil
	var rest []string
	err := f.Parse(args)
	for err == nil && f.NArg() > 0 {
		rest = append(rest, f.Arg(0))
		err = f.Parse(f.Args()[1:])
	}
	f.SetOutput(out)
	f.Usage = usage
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.Usage()
		return nil, err
	case err != nil:
		return nil, misuse(f, "%v", err)
	case len(rest) > words:
		return nil, misuse(f, "unexpected argument %q", rest[words])
	case f.Lookup("config").Value.String() == "":
		return nil, misuse(f, "--config: name the node's YAML file")
	}
	if format := f.Lookup("format").Value.String(); format != "text" && format != "json" {
		return nil, misuse(f, "--format %q: use text or json", format)
	}
	return rest, nil
}

func misuse(f *flag.FlagSet, format string, args ...any) error {
	fmt.Fprintf(f.Output(), "teacher: "+format+"\n", args...)
	fmt.Fprintf(f.Output(), "teacher %s --help shows the flags\n", f.Name())
	return errUsage
}

// printJSON prints a result as one line on standard output.
func printJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	_, err = fmt.Println(string(raw))
	return err
}

// usage lists the commands.
func usage(out *os.File) {
	fmt.Fprintln(out, "usage: teacher --config teacher.yaml")
	fmt.Fprintln(out, "       teacher COMMAND --config teacher.yaml [flags]; teacher COMMAND --help shows a command's flags")
	for _, c := range commands() {
		fmt.Fprintf(out, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprintln(out, "exit codes: 0 done or stopped by a signal, 1 failed or problems found, 2 wrong usage")
}
