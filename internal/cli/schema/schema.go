// Package schema has the commands about schemas: schema check.
package schema

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	c := &cobra.Command{Use: "schema COMMAND", Short: "check files of rows against a schema"}
	c.AddCommand(checkCommand())
	return []*cobra.Command{c}
}
