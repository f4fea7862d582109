// Package authority has the commands for certificates: certs for a cluster that one person sets up, site for one
// whose sites keep their own keys.
package authority

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command { return []*cobra.Command{certsCommand(), siteCommand()} }

// maxDays is ten years; an authority does not last longer.
const maxDays = 3650

// checkDays refuses an invalid number of days in a flag.
func checkDays(flag string, days, least int) error {
	if days < least || days > maxDays {
		return cli.Misuse("--%s %d: use %d to %d", flag, days, least, maxDays)
	}
	return nil
}

// duration is a number of days as a duration.
func duration(days int) time.Duration { return time.Duration(days) * 24 * time.Hour }

func roleFlag(c *cobra.Command, value certs.Role, usage string) *string {
	return cli.Choice(c, "role", string(value), usage,
		string(certs.RoleNode), string(certs.RoleStudent), string(certs.RoleAggregator), string(certs.RoleOperator),
		string(certs.RoleApprover), string(certs.RoleJoiner))
}

func hostsFlag(c *cobra.Command) *[]string {
	return c.Flags().StringSlice("hosts", nil,
		"host names and addresses of the aggregator, separated by commas")
}

func checkHosts(hosts []string, role certs.Role) error {
	if len(hosts) > 0 && role != certs.RoleAggregator {
		return cli.Misuse("--hosts is only for an aggregator, and this is a %s; leave it out", role)
	}
	return nil
}
