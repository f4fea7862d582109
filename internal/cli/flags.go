package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type choice struct {
	value string
	words []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.words, "|") }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.words, value) {
		last := len(c.words) - 1
		return errors.New("use " + strings.Join(c.words[:last], ", ") + " or " + c.words[last])
	}
	c.value = value
	return nil
}

// Choice adds a flag that takes one of at least two words. Its default may be another word.
func Choice(c *cobra.Command, name, value, usage string, words ...string) *string {
	v := &choice{value, words}
	c.Flags().Var(v, name, usage)
	complete := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // two flags with one name
	}
	return &v.value
}

// Format adds --format: text, or json for programs.
func Format(c *cobra.Command) *string {
	return Choice(c, "format", "text", "output format", "text", "json")
}

// LogLevel adds --log-level, which the environment may set, too.
func LogLevel(c *cobra.Command, what string) *string {
	level := Choice(c, "log-level", "error", "what "+what+" to standard error", "debug", "info", "warn", "error")
	FromEnvironment(c, "log-level")
	return level
}

// environment annotates a flag with the variable that may set it.
const environment = "conclave_environment"

// FromEnvironment lets a variable such as CONCLAVE_LOG_LEVEL set a flag such as log-level, unless the flag is
// given.
func FromEnvironment(c *cobra.Command, name string) {
	variable := "CONCLAVE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	f := c.Flags().Lookup(name)
	f.Annotations = map[string][]string{environment: {variable}}
	f.Usage += " (or set " + variable + ")"
}

// fromEnvironment sets the flags of a command that were not given, from environment variables.
func fromEnvironment(c *cobra.Command) error {
	var problem error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		for _, variable := range f.Annotations[environment] {
			value, ok := os.LookupEnv(variable)
			if !ok || f.Changed || problem != nil {
				continue
			}
			if err := c.Flags().Set(f.Name, value); err != nil {
				problem = Misuse("environment variable %s: %v", variable, flagError(c, err))
			}
		}
	})
	return problem
}
