// Package rows has the commands that read or write files of rows: sample,
// evaluate, shard and bench.
package rows

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{sampleCommand(), evaluateCommand(), shardCommand(), benchCommand()}
}
