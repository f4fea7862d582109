package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

const certsUsage = `usage: conclave certs ca    --dir DIR [--renew]
       conclave certs issue --dir DIR --role aggregator|node|student --name NAME [--hosts HOST,...] [--days N]
A node's name is its site. An aggregator needs the hosts it is dialled by.`

func certificates(ctx context.Context, args []string) error {
	return among(ctx, args, certsUsage, map[string]commandFunc{"ca": createCA, "issue": issue})
}

func createCA(_ context.Context, args []string) error {
	f := flags("certs ca", "certs ca --dir DIR [--renew]")
	dir := f.String("dir", "", "folder for the authority; ca.key must stay secret")
	renew := f.Bool("renew", false, "sign the certificate of the authority that is there anew, with its key")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" {
		return misuse(f, "--dir: name a folder")
	}
	create, did := certs.CreateCA, "authority in %s; keep ca.key secret, give ca.crt to everybody\n"
	if *renew {
		create, did = certs.RenewCA, "authority in %s renewed; give the new ca.crt to everybody\n"
	}
	if err := create(*dir); err != nil {
		return err
	}
	cert, key := filepath.Join(*dir, "ca.crt"), filepath.Join(*dir, "ca.key")
	if *format == "json" {
		return printJSON(map[string]string{"cert": cert, "key": key})
	}
	fmt.Printf(did, *dir)
	return nil
}

// maxDays is ten years; an authority does not last longer.
const maxDays = 3650

func issue(_ context.Context, args []string) error {
	f := flags("certs issue", "certs issue --dir DIR --role ROLE --name NAME [--hosts HOST,...] [--days N]")
	dir := f.String("dir", "", "folder of the authority")
	role := f.String("role", "", "aggregator, node or student")
	name := f.String("name", "", "name in the certificate; a node's is its site")
	hosts := f.String("hosts", "", "names and addresses an aggregator is dialled by, with commas")
	days := f.Int("days", 365, "days the certificate is valid")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *role == "" || *name == "" {
		return misuse(f, "--dir, --role and --name are needed")
	}
	if *days < 1 || *days > maxDays {
		return misuse(f, "--days %d: use 1 to %d", *days, maxDays)
	}
	if *hosts != "" && (*role == string(certs.RoleNode) || *role == string(certs.RoleStudent)) {
		return misuse(f, "--hosts belongs to an aggregator, nobody dials a %s; leave it out", *role)
	}
	var list []string
	if *hosts != "" {
		list = strings.Split(*hosts, ",")
	}
	if err := certs.Issue(*dir, certs.Role(*role), *name, list, time.Duration(*days)*24*time.Hour); err != nil {
		return err
	}
	files := certs.IssuedFiles(*dir, certs.Role(*role), *name)
	if *format == "json" {
		return printJSON(files)
	}
	fmt.Printf("%s\n%s\n", files.Cert, files.Key)
	return nil
}
