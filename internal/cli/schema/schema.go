// Package schema has the commands about schemas: schema propose and schema check.
package schema

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	c := &cobra.Command{Use: "schema COMMAND", Short: "propose a schema for a table, or check files against one"}
	c.AddCommand(proposeCommand(), checkCommand())
	return []*cobra.Command{c}
}
