package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/version"
)

// ExitError ends a program with a given exit code.
type ExitError struct {
	Code int
	Err  error // nil if standard output has said everything
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Interrupted returns err, or an error with the text say if the context ended before.
func Interrupted(ctx context.Context, err error, say string) error {
	if err != nil && ctx.Err() != nil {
		return errors.New(say)
	}
	return err
}

// Main runs the program with the arguments of the process, and ends the process.
func Main(root *cobra.Command) { os.Exit(Run(root)) }

// Run executes the program with the arguments that root was given, or those of the process, and returns the exit
// code. SIGINT and SIGTERM end the context of the commands. A second signal ends the process at once.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	complete(root)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if usage := new(usageError); errors.As(err, &usage) {
		usage.show(command)
		return 2
	}
	code := 1
	if own := new(ExitError); errors.As(err, &own) {
		code = own.Code
	}
	if says := err.Error(); says != "" {
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), text.Plain(says)) // part of it may come from somebody else
	}
	return code
}

// complete adds what all programs have: a version, manual pages, completions, help, the same messages about wrong
// usage, and flags from the environment.
func complete(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.DisableAutoGenTag = true
	root.Version = version.Software
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return fromEnvironment(c) }
	root.AddCommand(manCommand())
	cobra.EnableCommandSorting = false // commands are listed in the order in which people need them
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	completeTree(root)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args, c.Short = helpTopic, "show the help of a command"
		case "completion":
			c.Short = "write the completion script of a shell"
			for _, shell := range c.Commands() {
				shell.Args = noArguments
			}
		}
	}
}

// completeTree makes commands refuse unexpected arguments, and makes a group of commands ask for one of them.
func completeTree(c *cobra.Command) {
	c.DisableFlagsInUseLine = true // the usage lines name the important flags
	if c.Args == nil {
		c.Args = noArguments
		if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	if !c.Runnable() {
		c.Args = noArguments
		c.RunE = func(*cobra.Command, []string) error { return &usageError{} }
	}
	for _, below := range c.Commands() {
		completeTree(below)
	}
}
