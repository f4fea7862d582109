package teacher

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/console/site"
)

// consoleCommand serves the console of the site's people.
func consoleCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "console --config FILE [--as CERT --key KEY]",
		Short: "serve pages to a browser on this machine: pending runs, the ledger, sent data",
		Long: `Serves pages to a browser on this machine, on a loopback address only. It prints an address that
works once, within five minutes; after that the browser has a cookie. The pages show pending decisions, the site's
ledger, what left the site, and the node's status. People approve and deny runs there as with
` + "`teacher approve`" + ` and ` + "`teacher deny`" + `, with the rights of the user who started the command.`,
	}
	f := c.Flags()
	as := f.String("as", "", "`certificate` of the approver, if the policy names approvers")
	key := f.String("key", "", "`file` of its key")
	listen := console.ListenFlag(f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o := site.Options{Listen: *listen, Config: *config, As: *as, Key: *key}
		return site.Run(c.Context(), o, console.Print)
	}
	return c
}
