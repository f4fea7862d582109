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

// revokeFlags say what is revoked, and why.
type revokeFlags struct {
	dir, serial, reason string
	days                int
	role, format        *string
}

func revokeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "revoke --dir CA_DIR [--role ROLE] [--reason WORD] [--crl-days N] NAME | --serial HEX",
		Short:             "where the authority is: revoke certificates, and write the list of those",
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var o revokeFlags
	f := c.Flags()
	f.StringVar(&o.dir, "dir", "", "`folder` of the authority")
	f.StringVar(&o.serial, "serial", "", "revoke one certificate, by its serial; by default all valid ones of the name")
	o.role = roleFlag(c, "", "role of the name, where several have it")
	f.StringVar(&o.reason, "reason", certs.ReasonUnspecified, "why: "+strings.Join(certs.Reasons(), ", "))
	listDaysFlag(c, &o.days)
	o.format = cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if o.dir == "" || (len(args) == 0) == (o.serial == "") {
			return cli.Misuse("--dir, and either a name or --serial, are needed")
		}
		if err := checkDays("crl-days", o.days, 0); err != nil {
			return err
		}
		return revoke(o, strings.Join(args, ""))
	}
	return c
}

func listDaysFlag(c *cobra.Command, days *int) {
	c.Flags().IntVar(days, "crl-days", 0,
		"days after which the list must have been replaced; 0: as long as the authority lasts")
}

// revoke revokes the certificates of a name, or of the serial.
func revoke(o revokeFlags, name string) error {
	revoked, err := authority.Revoke(o.dir, authority.Revocation{
		Serial: o.serial, Name: name, Role: certs.Role(*o.role), Reason: o.reason, ListFor: duration(o.days),
	})
	if err != nil {
		return err
	}
	if *o.format == "json" {
		return cli.PrintJSON(map[string]any{"list": certs.RevokedFile(o.dir), "revoked": revoked})
	}
	for _, e := range revoked {
		fmt.Printf("revoked %s %s %s\n", e.Role, e.Name, e.Serial)
	}
	fmt.Println(certs.RevokedFile(o.dir))
	fmt.Fprintln(os.Stderr, "copy the list to where tls.revoked of every role says, first of all to the aggregators; "+
		"until then nothing changes")
	return nil
}

func crlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "crl --dir CA_DIR [--crl-days N]",
		Short: "where the authority is: write the list of revoked certificates anew",
	}
	dir := c.Flags().String("dir", "", "`folder` of the authority")
	var days int
	listDaysFlag(c, &days)
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *dir == "" {
			return cli.Misuse("--dir: name the folder of the authority")
		}
		if err := checkDays("crl-days", days, 0); err != nil {
			return err
		}
		info, err := authority.WriteList(*dir, duration(days))
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(info)
		}
		fmt.Printf("%s, %d certificates, until %s\n", info.Path, info.Revoked, info.Until.Format(time.DateOnly))
		return nil
	}
	return c
}
