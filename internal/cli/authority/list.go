package authority

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/cli"
)

func listCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list --dir CA_DIR",
		Short: "at the authority: list the certificates that it signed",
	}
	dir := c.Flags().String("dir", "", "`folder` of the authority")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *dir == "" {
			return cli.Misuse("--dir: give the folder of the authority")
		}
		all, err := authority.Inventory(*dir)
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(map[string]any{"certificates": append([]authority.Certificate{}, all...)})
		}
		return show(all)
	}
	return c
}

func show(all []authority.Certificate) error {
	w := cli.Columns()
	fmt.Fprintln(w, "role\tname\tserial\tfingerprint of the key\tvalid until\tstate")
	for _, h := range all {
		until, state := "-", h.State
		if !h.NotAfter.IsZero() {
			until = h.NotAfter.Format(time.DateTime)
		}
		if h.State == authority.StateRevoked {
			state += fmt.Sprintf(" %s, %s", h.RevokedAt.Format(time.DateTime), h.Reason)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cli.Dash(string(h.Role)), cli.Dash(h.Name), h.Serial,
			cli.Dash(h.Fingerprint), until, state)
	}
	return w.Flush()
}
