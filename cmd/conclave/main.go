// Command conclave is the operator's and the newcomer's command: local runs,
// the demo, sampling, ledgers and certificates.
//
// Results go to standard output, everything else to standard error.
//
// Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage; of conclave run also 3 out of
// budget and 4 cancelled.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/conclave-dp/conclave/internal/version"
)

// command is one of conclave's commands.
type command struct {
	name, summary string
	run           commandFunc
}

// commandFunc runs a command with the arguments behind its name.
type commandFunc = func(ctx context.Context, args []string) error

func commands() []command {
	return []command{
		{"demo", "train on the shipped example, end to end", demo},
		{"local", "run a run.yaml on a cluster of its own on this machine", localRun},
		{"sample", "draw more rows from a trained model", sample},
		{"post", "boost or reject among what a finished run generated", post},
		{"weights", "weight the rows of a finished run towards the real ones", weights},
		{"report", "make the report of a finished run anew, and compare with real rows", makeReport},
		{"evaluate", "compare synthetic rows with real ones", evaluateRows},
		{"ledger", "verify a ledger and its certificate", ledgerCommand},
		{"audit", "test the privacy claim against the releases of thousands of runs", auditClaim},
		{"privacy", "account for releases, calibrate noise, plan a run", privacyCommand},
		{"bench", "run a table of a paper on the same data", benchCommand},
		{"run", "queue runs at an aggregator, list, watch and cancel them", runs},
		{"shard", "cut a site's rows into a file for each of its nodes", shard},
		{"certs", "make an authority and certificates for a cluster", certificates},
		{"site", "request, approve, renew, revoke and list certificates of sites", site},
		{"version", "print the version", showVersion},
	}
}

// errUsage marks wrong usage; the message has been shown.
var errUsage = errors.New("usage")

func main() { os.Exit(mainCode()) }

// mainCode runs the command of the arguments and returns the exit code.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := dispatch(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintln(os.Stderr, "conclave:", err)
	if coded := new(codeError); errors.As(err, &coded) {
		return coded.code
	}
	return 1
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-version") {
		args = append([]string{"version"}, args[1:]...)
	}
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, args[1:])
			}
		}
	}
	help := asksHelp(args)
	if len(args) > 0 && !help {
		fmt.Fprintf(os.Stderr, "conclave: unknown command %q\n", args[0])
	}
	out := os.Stderr
	if help {
		out = os.Stdout
	}
	fmt.Fprintln(out, "usage: conclave COMMAND [flags]; conclave COMMAND --help shows a command's flags")
	for _, c := range commands() {
		fmt.Fprintf(out, "  %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprintln(out, "exit codes: 0 done, 1 failed or interrupted, 2 wrong usage; some commands have more")
	if help {
		return nil
	}
	return errUsage
}

// asksHelp tells whether the first argument asks for help.
func asksHelp(args []string) bool {
	return len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help")
}

// among runs the command of a group that the first argument names.
func among(ctx context.Context, args []string, usage string, group map[string]commandFunc) error {
	if len(args) > 0 && group[args[0]] != nil {
		return group[args[0]](ctx, args[1:])
	}
	if asksHelp(args) {
		fmt.Println(usage)
		return nil
	}
	fmt.Fprintln(os.Stderr, usage)
	return errUsage
}

func showVersion(_ context.Context, args []string) error {
	f := flags("version", "version [--format json]")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(struct {
			Software string `json:"software"`
		}{version.Software})
	}
	fmt.Println(version.Software)
	return nil
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
	// The flag package would print the whole usage after any mistake.
	out, usage := f.Output(), f.Usage
	f.SetOutput(io.Discard)
	f.Usage = nil
	err := f.Parse(args)
	f.SetOutput(out)
	f.Usage = usage
	if errors.Is(err, flag.ErrHelp) {
		f.Usage()
		return err
	}
	if err != nil {
		return misuse(f, "%v", err)
	}
	if f.NArg() > 0 {
		return misuse(f, "unexpected argument %q", f.Arg(0))
	}
	if format, ok := lookupFormat(f); ok && !slices.Contains(format.allowed, format.value) {
		return misuse(f, "--format %q: use %s", format.value, strings.Join(format.allowed, " or "))
	}
	return nil
}

// formatValue is the value of --format.
type formatValue struct {
	value   string
	allowed []string
}

func (v *formatValue) String() string         { return v.value }
func (v *formatValue) Set(value string) error { v.value = value; return nil }

func lookupFormat(f *flag.FlagSet) (*formatValue, bool) {
	if format := f.Lookup("format"); format != nil {
		v, ok := format.Value.(*formatValue)
		return v, ok
	}
	return nil, false
}

// formatFlag registers --format, which parse checks, and returns its value: text,
// or what other words for it are given, or json.
func formatFlag(f *flag.FlagSet, plain ...string) *string {
	v := &formatValue{value: "text", allowed: []string{"text", "json"}}
	if len(plain) > 0 {
		v.value, v.allowed = plain[0], append(plain, "json")
	}
	f.Var(v, "format", "how to print the result: "+strings.Join(v.allowed, " or "))
	return &v.value
}

// fromEnvironment sets flags that were not given from variables such as
// CONCLAVE_LOG_LEVEL for --log-level.
func fromEnvironment(f *flag.FlagSet, names ...string) error {
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	for _, name := range names {
		variable := "CONCLAVE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, ok := os.LookupEnv(variable)
		if !ok || given[name] {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return misuse(f, "environment variable %s: %v", variable, err)
		}
	}
	return nil
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

// misuse says what is wrong with the usage, and where help is.
func misuse(f *flag.FlagSet, format string, args ...any) error {
	fmt.Fprintf(f.Output(), "conclave: "+format+"\n", args...)
	fmt.Fprintf(f.Output(), "conclave %s --help shows the flags\n", f.Name())
	return errUsage
}
