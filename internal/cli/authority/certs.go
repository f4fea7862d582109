package authority

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/cli"
)

// certsCommand makes an authority, and certificates with their keys.
func certsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "certs COMMAND",
		Short: "create an authority and certificates for a cluster",
		Long: `Creates an authority and certificates for a cluster.
A node's name is its site. An aggregator's certificate needs its host names.`,
	}
	c.AddCommand(caCommand(), issueCommand(), fingerprintCommand())
	return c
}

func caCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ca --dir DIR [--renew]",
		Short: "create an authority, or renew its certificate",
	}
	dir := c.Flags().String("dir", "", "`folder` for the authority; ca.key must stay secret")
	renew := c.Flags().Bool("renew", false, "renew the certificate of the existing authority, with the same key")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *dir == "" {
			return cli.Misuse("--dir: give a folder")
		}
		create, did := authority.Create, "authority in %s; keep ca.key secret, give ca.crt to everybody\n"
		if *renew {
			create, did = authority.Renew, "authority in %s renewed; give the new ca.crt to everybody\n"
		}
		if err := create(*dir); err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(map[string]string{
				"cert": filepath.Join(*dir, "ca.crt"), "key": filepath.Join(*dir, "ca.key"),
			})
		}
		fmt.Printf(did, *dir)
		return nil
	}
	return c
}

func issueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "issue --dir DIR --role ROLE --name NAME [--hosts HOST,...] [--days N]",
		Short: "create a key and its certificate",
	}
	dir := c.Flags().String("dir", "", "`folder` of the authority")
	role := roleFlag(c, "", "role of the certificate")
	name := c.Flags().String("name", "", "name in the certificate; for a node, its site")
	hosts := hostsFlag(c)
	days := c.Flags().Int("days", 365, "days the certificate is valid")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *dir == "" || *role == "" || *name == "" {
			return cli.Misuse("--dir, --role and --name are required")
		}
		if err := checkDays("days", *days, 1); err != nil {
			return err
		}
		role := certs.Role(*role)
		if err := checkHosts(*hosts, role); err != nil {
			return err
		}
		if err := authority.Issue(*dir, role, *name, *hosts, duration(*days)); err != nil {
			return err
		}
		files := certs.IssuedFiles(*dir, role, *name)
		if *format == "json" {
			return cli.PrintJSON(files)
		}
		fmt.Printf("%s\n%s\n", files.Cert, files.Key)
		return nil
	}
	return c
}
