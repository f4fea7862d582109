package authority

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/cli"
)

func revokeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "revoke --dir CA_DIR [--role ROLE] [--reason WORD] [--crl-days N] NAME | --serial HEX",
		Short:             "at the authority: revoke certificates and write the list of revoked ones",
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	dir := f.String("dir", "", "`folder` of the authority")
	serial := f.String("serial", "", "revoke one certificate by its serial (default: all valid ones of the name)")
	role := roleFlag(c, "", "role of the certificate, if several roles have the name")
	reason := f.String("reason", certs.ReasonUnspecified, "why: "+strings.Join(certs.Reasons(), ", "))
	days := listDaysFlag(c)
	format := cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *dir == "" || (len(args) == 0) == (*serial == "") {
			return cli.Misuse("--dir, and either a name or --serial, are required")
		}
		if err := checkDays("crl-days", *days, 0); err != nil {
			return err
		}
		revoked, err := authority.Revoke(*dir, authority.Revocation{
			Serial: *serial, Name: strings.Join(args, ""), Role: certs.Role(*role), Reason: *reason,
			ListFor: duration(*days),
		})
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(map[string]any{"list": certs.RevokedFile(*dir), "revoked": revoked})
		}
		for _, e := range revoked {
			fmt.Printf("revoked %s %s %s\n", e.Role, e.Name, e.Serial)
		}
		fmt.Println(certs.RevokedFile(*dir))
		fmt.Fprintln(os.Stderr, "copy the list to the tls.revoked file of every role, aggregators first; until then "+
			"nothing changes")
		return nil
	}
	return c
}

func listDaysFlag(c *cobra.Command) *int {
	return c.Flags().Int("crl-days", 0,
		"days until the list expires; 0: with the authority")
}

func crlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "crl --dir CA_DIR [--crl-days N]",
		Short: "at the authority: write the list of revoked certificates again",
	}
	dir := c.Flags().String("dir", "", "`folder` of the authority")
	days := listDaysFlag(c)
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *dir == "" {
			return cli.Misuse("--dir: give the folder of the authority")
		}
		if err := checkDays("crl-days", *days, 0); err != nil {
			return err
		}
		info, err := authority.WriteList(*dir, duration(*days))
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(info)
		}
		fmt.Printf("%s: %d certificates, valid until %s\n", info.Path, info.Revoked, info.Until.Format(time.DateOnly))
		return nil
	}
	return c
}
