package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// tool is a program with a group of one command, which records its flags.
func tool(t *testing.T) (root *cobra.Command, format, level *string) {
	t.Helper()
	leaf := &cobra.Command{Use: "draw [flags]", Short: "draw rows"}
	leaf.RunE = func(*cobra.Command, []string) error { return nil }
	format, level = Format(leaf), LogLevel(leaf, "is logged")
	leaf.Flags().Int("rows", 1, "number of rows")
	group := &cobra.Command{Use: "rows COMMAND", Short: "make rows"}
	group.AddCommand(leaf)
	root = &cobra.Command{Use: "tool COMMAND", Short: "a tool"}
	root.AddCommand(group)
	complete(root)
	root.SetOut(new(bytes.Buffer))
	return root, format, level
}

func TestWrongUsage(t *testing.T) {
	for _, test := range []struct {
		want string
		args []string
	}{
		{"", nil},
		{"", []string{"rows"}},
		{`unknown command "row"; did you mean rows?`, []string{"row"}},
		{`unknown command "fly"`, []string{"fly"}},
		{`unknown command "drew"; did you mean draw?`, []string{"rows", "drew"}},
		{`unknown command "drew"; did you mean draw?`, []string{"help", "rows", "drew"}},
		{`unknown command "drew"; did you mean draw?`, []string{"rows", "drew", "--format", "json"}},
		{`unknown command "fly"`, []string{"fly", "--format", "json"}},
		{`unexpected argument "more"`, []string{"rows", "draw", "more"}},
		{"unknown flag --formats; did you mean --format?", []string{"rows", "draw", "--formats", "json"}},
		{"unknown flag --fly", []string{"rows", "draw", "--fly"}},
		{"unknown flag -format; flags have two dashes, write --format", []string{"rows", "draw", "-format=json"}},
		{"unknown flag -help; flags have two dashes, write --help", []string{"rows", "-help"}},
		{`unexpected argument "a"`, []string{"completion", "bash", "a"}},
		{`unknown command "drew"; did you mean draw?`, []string{"rows", "help", "drew"}},
		{"flag needs an argument: --format", []string{"rows", "draw", "--format"}},
		{`--format "xml": use text or json`, []string{"rows", "draw", "--format", "xml"}},
		{`--rows "many": give a whole number`, []string{"rows", "draw", "--rows", "many"}},
		{"--out: give a folder", []string{"man"}},
	} {
		root, _, _ := tool(t)
		root.SetArgs(append([]string{}, test.args...))
		err := root.Execute()
		if usage := new(usageError); !errors.As(err, &usage) || usage.text != test.want {
			t.Errorf("%q: got %v, want %q", test.args, err, test.want)
		}
	}
}

// A flag overrides the environment, which overrides the default and is checked like a flag.
func TestFlagFromEnvironment(t *testing.T) {
	const wrong = "environment variable CONCLAVE_LOG_LEVEL: --log-level %q: use debug, info, warn or error"
	for _, test := range []struct {
		variable, want string
		problem        string
		args           []string
	}{
		{"", "error", fmt.Sprintf(wrong, ""), nil},
		{"info", "info", "", nil},
		{"info", "warn", "", []string{"--log-level", "warn"}},
		{"loud", "warn", "", []string{"--log-level", "warn"}},
		{"loud", "error", fmt.Sprintf(wrong, "loud"), nil},
	} {
		t.Setenv("CONCLAVE_LOG_LEVEL", test.variable)
		root, format, level := tool(t)
		root.SetArgs(append([]string{"rows", "draw"}, test.args...))
		problem := ""
		if err := root.Execute(); err != nil {
			problem = err.Error()
		}
		if problem != test.problem || *level != test.want || *format != "text" {
			t.Errorf("%+v: level %s, format %s, error %q", test, *level, *format, problem)
		}
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	for _, words := range []string{
		"help", "--help", "-h", "help rows", "rows help", "help rows draw", "rows draw --help", "completion help",
	} {
		root, _, _ := tool(t)
		out := new(bytes.Buffer)
		root.SetOut(out)
		root.SetArgs(strings.Fields(words))
		if err := root.Execute(); err != nil || !bytes.Contains(out.Bytes(), []byte("usage: tool ")) {
			t.Errorf("%q: %v, %s", words, err, out)
		}
	}
}
