package main

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/console/site"
)

// consoleCommand serves the console of the site's people.
func consoleCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "console --config FILE [--as CERT --key KEY]",
		Short: "serve pages about what waits and what left to the browser of this machine",
		Long: `Serves pages to the browser of this machine, on a loopback address and to nobody else. It prints an
address that opens them once, within five minutes; then the browser has a cookie. They show what waits for a
decision, the site's ledger, what left and how the node stands. Who opens the page approves and denies as
` + "`teacher approve`" + ` and ` + "`teacher deny`" + ` do, with the rights of who started the command.`,
	}
	f := c.Flags()
	as := f.String("as", "", "`certificate` of role approver of the person who decides, where the policy names "+
		"approvers")
	key := f.String("key", "", "`file` of its key")
	listen := console.ListenFlag(f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o := site.Options{Listen: *listen, Config: *config, As: *as, Key: *key}
		return site.Run(c.Context(), o, console.Print)
	}
	return c
}
